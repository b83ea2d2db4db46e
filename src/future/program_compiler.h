/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Layout programs for a recording, compiled on a separate thread: process/places.h. */
#pragma once

#include "process/places.h"

extern const struct places_ops future_places;
