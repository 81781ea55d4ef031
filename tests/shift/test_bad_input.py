"""Bad input ends with one line that says what to do."""

import numpy as np
import pytest

from calibrant.errors import CalibrantError
from calibrant.shift import corrupt, register, rotate, shift_named

GOOD = np.zeros((1, 32, 32, 3), np.uint8)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: corrupt(GOOD, "gausian_noise", 1), "did you mean 'gaussian_noise'"),
        (lambda: corrupt(GOOD, "fog", 0), "a severity from 1 to 5, got 0"),
        (lambda: corrupt(GOOD, "fog", 6), "a severity from 1 to 5, got 6"),
        (lambda: corrupt(GOOD, "fog", True), "got True"),
        (lambda: corrupt(GOOD + 1.5, "fog", 1), "floats from 1.5 to 1.5"),
        (lambda: corrupt(GOOD * np.nan, "fog", 1), "floats from nan"),
        (lambda: corrupt(GOOD.astype(np.int64), "fog", 1), "dtype int64"),
        (lambda: corrupt(GOOD[0, 0], "fog", 1), "images[None]"),
        (lambda: corrupt(GOOD[..., :1], "saturate", 1), "3 channels, got 1"),
        (lambda: corrupt(GOOD[..., 0], "saturate", 1), "repeat"),
        (lambda: corrupt(GOOD.transpose(0, 3, 1, 2), "saturate", 1), "layout='NCHW'"),
        (lambda: corrupt([[1, 2], [3]], "fog", 1), "different lengths"),
        (lambda: corrupt(GOOD, "fog", "3"), "got '3'"),
        (lambda: corrupt(GOOD, "fog", 1, seed=-1), "seed"),
        (lambda: corrupt(GOOD, "fog", 1, first=-1), "first"),
        (lambda: corrupt(GOOD, "fog", 1, parameters="cifr"), "parameters"),
        (lambda: corrupt(GOOD, "fog", 1, swap=True), "glass_blur"),
        (lambda: corrupt(GOOD, "fog", 1, layout="HWC"), "layout"),
        (lambda: shift_named("fgo"), "did you mean 'fog'"),
        (lambda: rotate(GOOD, float("nan")), "degrees"),
        (lambda: register("fog", kind="corruption", severities=[1], summary="")(lambda rows, s, d: rows), "already"),
        (lambda: register("other", kind="corrupt", severities=[1], summary=""), "kind"),
        (lambda: shift_named("fog").indices(GOOD, 1), "selects rows"),
    ],
)
def test_one_line(call, words):
    with pytest.raises(CalibrantError) as error:
        call()
    assert words in str(error.value)
    assert "\n" not in str(error.value)


def test_no_images_give_no_images():
    for name in ("fog", "shot_noise"):
        assert corrupt(GOOD[:0], name, 1).shape == (0, 32, 32, 3)
