"""The numbers of a recording are the program's own, exactly, with nothing lost; and the program
prints and exits as without pollux."""
import catalogue


def test_truth(pollux, case, tmp_path, all_of_it):
    wrong = catalogue.check(pollux, case, tmp_path, all_of_it)
    assert not wrong, "\n".join(wrong)
