// cargo wants a target.
