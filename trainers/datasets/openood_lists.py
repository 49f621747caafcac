"""The datasets of the OpenOOD v1.5 protocol for CIFAR-100, and the images that it leaves out.

Facts from the image lists that https://github.com/Jingkang50/OpenOOD downloads (MIT license,
`benchmark_imglist/cifar100/test_tin.txt` and `test_places365.txt`): images whose content overlaps
with a class of CIFAR-100, chosen image by image. A string holds the distances between the numbers
that are left out, one byte each, compressed, in base 64.
"""

import base64
import zlib

import numpy as np

NUM_TINY_IMAGENET = 10_000
NUM_PLACES365 = 36_500


def openood_sets(dataset: str = "cifar100") -> dict[str, tuple[str, ...]]:
    """Names of the near and far out-of-distribution sets of the OpenOOD v1.5 protocol.

    Args:
        dataset: the in-distribution dataset; only "cifar100".

    Returns:
        `{"near": names, "far": names}`.

    Example:

    >>> data.openood_sets("cifar100")["near"]
    ('cifar10', 'openood_tiny_imagenet')
    """
    if dataset != "cifar100":
        raise ValueError(
            f"dataset: expected 'cifar100', received {dataset!r}. The protocol's sets for others "
            "are not available."
        )
    return {
        "near": ("cifar10", "openood_tiny_imagenet"),
        "far": ("openood_mnist", "svhn_cropped", "openood_textures", "openood_places365"),
    }


def kept(left_out: str, size: int) -> np.ndarray:
    """bool [size], whether the protocol has the image of each number from 0."""
    gaps = np.frombuffer(zlib.decompress(base64.b64decode(left_out)), np.uint8)
    mask = np.ones(size, bool)
    mask[np.cumsum(gaps, dtype=np.int64) - 1] = False
    return mask


TINY_IMAGENET = (
    "eNo9VwlyIzkMK55Sq+PMUbX//+oCoDJOynHLEsUDAJk0c/vYDstMfs5wK7cwPrjjr0eEHsy2JZYW1yrDIt0W182W00DZPG"
    "EZRyq243HhECylfVfjnio84NXaG7TbMIVP4boVL1jGp8AW7B+DhgPR2kFPS66d8gcfKuQU9igE3Bc7FJG8sbSAwcYCPPak"
    "V/4UPccmHvbXeCVi4HULphHe8omabjkt1AeZ2KE8FCLBPYsBMoLNvw9+8PeLW3wx6mD27NBVL9gOhr0RsOLOWp8F8/hF2h"
    "sOMny4eGiNWVdebLXvuCvwA7dylY/e2smkKXrfzFkgNtUsYC35qWzTekfZ7J2cIielqCdvhfiWvueZTcNIC8rQMIUUXTeU"
    "DQTC9BELQoHpFq8+C9mEjV24fm1sjWrGgS2sWsOlVKERyQOXY7Eqxt9EPLlgjTXhiwUzASOEInyBi3PC2EQIzrC0/vXNrx"
    "++ESklbDFSJGepgG5vF3HoWSh609AD7ExC8IHYtlIxGBIKTjTkyxI2mWHMIpcZsr32wA6DfpN5eoLu5q2ZPCSb1vCI+fL4"
    "RgkEyhQAiMyMhzWo+CIPGgmAgS9jZojJ4AM3LsWil/DqKY64P4AEqMfAhLBUEJbHL5fmECNneVOMFvfIiiL9Ovu8qet4l2"
    "prxMOwgUcrEbBV941MlFTVprbf7usA9APaUQ44U/7fQvLqkAtSmFy+Vgk8wUyhaDGIoy2oQ9VZwEy6EEU3XFRY/ovMFkFq"
    "7hDkYPUP6q2s69q+B5FLxs/tSArvF3IG/cyA6tU9F60JBvfioXROPKZnxUzxiPwBBlRVbMirVO7abESTQQtIttpkuIDeSp"
    "h0jXdROilCjw+FyBbKmCSRpJYU0G1eB841MzSMD3+aUUjwkgygIsAxHCjmV+qGkJpfw/FDbmbbhEbpob8AxzFpNjXqmAQZ"
    "WkimAz1fJ6VEKYWudVQt1RRqQH/xXCNRqUXuw6WATJy87BM//Qe3YpBfMKpwMcRGhCyxFAxxdN72o77TkgXG/I6gjljAZ/"
    "+WQ4xU3YAEuNpGQaOGi0tze/WtA0GYH6rAALKzGtvWUpP4qKmV5eh6CCeMbmPt02sw9vOGNgKoQvTIN8KHOcE7+gMSyx5I"
    "fUuu9VVpZ7NDRHuwzLSipFvIF7dSeuFola6WgS8AU8uBymISw/ZarA7OSwpDmc1WqJuij/CGBj6JzxEbWZ9+7HSMR9TI1D"
    "RZe6OGphoWKlF/RAo2PrYa0Y4oXUpPN+qyeKhsWinzoigkfofCjJ4DmWc/YImCkLLRmfI7LpwaB129SrZv3XBpabOPmuPn"
    "Fce1acTWpwW1xI85rfZp7fDT3oc+bfGq1C5bVeAVGmR6SqA8lEhVkgayjR1IFRkB3xox2Nema1Ru07SkBmp7BggVioLeQr"
    "pycgS/mEHIyVQORnAUVE775dIJml3fzLdmK4GB3ff4ziGKsD0kkoYjxiZN4P4esWIDZZJ+BgAbJ4h1WJnpDl2oarDyxrQi"
    "VvuZvNlvdiFT/xY3R+hLv4TJaHIJZBhtWHW26BzJp7Q3By+pmLGfh6iB/irRq5jjJqnOFiDIOHYncY8dh3x9CEVJOaDaZ9"
    "ntKFOQf6UXfl1yQUw3b3jJESLPJYpHU9GAX+I4MsFmwL4dI9Nki9oQ6eozEFKdNWs9OiXOSRYJZU1QfWdO5TE4NfpkvJ9i"
    "9eIFdGL9dTJfuRKI/jIM+2L3FSpndJ5R09hoQrHcNpdbgd82gKvGZ90LkMChVbf3iwCRf0a5qEGLM0vkDPSpgXCUMdkTRn"
    "FIIaU0Rz/dbyvCtUsdVTMH0a//AQQRpWsAmYKDl91zKuJ0eRbtNkCAxkt6CJHX+JpaYfMhPbqPDR5ka8o0qmnTlxHPq4KU"
    "5Jb/h6hFU3jPHQ8x4f/0GMzrE5gWY8Zq7N0cMIVSXfAIRfXWPjxUHFeET9kRN/MTe3EufwmA4WD/G+KYk0V+0w8+MFafTM"
    "4w9czAMBbz/pfUfjRYUBjgwRcH6P8BvxonDQ=="
)
"""Of val_0.JPEG to val_9999.JPEG; 972 of those left out, in 20 classes, are for validation."""

PLACES365 = (
    "eNoVltdyI8kRRSNdedPVDo1uGIIkaGY5s8vx0khao9CEVm/6Bf3/Rygn8NYAqjNv3nuyWif2wdiw7JHpKxqo1s2AllxzWX"
    "qfWyWYQ3fHeEnOX6kDlzwNl3EwznYDteqxSRe4771s+dY54PB5YEyHeIh+Fe8Rf0XK7hwtWM+JB/wgjqAriwmA0OZS7Evu"
    "jhVgxLy4WxohH95vrRQaGU0FZ68xu4GZLGPoWwsUIFt7sYHbREZM8s5IBp4GhvdDR2g3+ACPBztqPdhfpXVnJsmS2D0wLQ"
    "IyW4hY2ZwtfjqPlnlIQ/UXwGDM6UJhLP1eT8MQ0iiHt3QlDglnB0dp7vNUbE+Cgyy+cieF3FPJyPuopTkpjjrjYTEJcmAD"
    "KaT7wRr6jGavbwS2/jb3VCRjXQhyJU+HyXF1JVnXFeftbk4Om935N6YjwkQ00Q3jQtk0cTupYk9kVB4byqNwMhKn6zx6/Z"
    "ZX62LzuHGoKCutOaBb5AX+t+9sET+csxGpEFJMzeA+U3KcUp+kzqc9XPdVClK6ENBwmixfxHL4GxJS6Gb93CTJT/iRCvPR"
    "m+i0OLvRntbPxoLEQyi9k6WDMn8/QnhyaPj4sCt6UpooVDrCOs9MTGB2b8VTbqh9iHMBdKxvJCL6spNw608wYzd4eoACFO"
    "8htjl6QXnUAXpMiV9tmurNy2PHqILcjP0TnW8MYWC2bDc/QSQuwR1Fp/1oTDWo0vEWp4xEa5jmvuhI283DVA1TXNVfYXec"
    "EVDIhLlK8vbvUd2goqzkLS9+C29Sw84ZDp2O/Kqn/uxO2sca0Xw1ZG5nl3OmZTrq4LqOoszm0+Pzb1hXCOfow/R7uUEcM6"
    "vAls6/+CGlRC8IQ6zYIHGi1EsSG9TWKHD/HBsN0AntiEaXhtxrzgq8s8j5ITq4jGZydXnDtoDrntI4DqthOMT+zjTjKpqG"
    "D+1C1vF+hwHzd2NMd60IMxyWOy/LXA9Z3B2uG6yCpWPHYnz0yeKfVSYT+RtozvgwVf4IU/jsMc7fDGlZzo4/tZEesbz6ln"
    "JVBwbizsvDWh084GYX+I9MoMJKvChj+qQiyd0e+AX80+A17sYoSmZyNxapFNFK5fjD8a/UEwHe5aZPvDqONOcaIRx6s9CK"
    "ZABODz1S9f1sdNTIbI7Klbme2Tx2VRF1VshAHgzS2LpU+nd3sPCWyLPN6TxESxkx9sH8tuTUGTckpVOO7oA12lqxD1RHn7"
    "Lj2UgIRwxN+1bKrV0OLv4TRv5jStPTRvWp10fWLF/JqWt9OmZwu0Xm1L8PJ01GyvnOpC/9eSLqHUC0Ozh583BAVL+BYK0D"
    "L71M92t6Js6YbC+el05C4mA7kuic2cpevWtyamGoNtGZfDYXtZA1kuJ9z0/mKUcRifBXmHAxrSnUvvTBwTmyvII4Homfm+"
    "w2AJyeA39w8Rw3c+dHc9llPLciA8z5BEQaIG02zr4Z3/PIdLqeNWD0VC2aGKIrs6i2W7s3Ske+tfkwOJJkwLavo0M8jEDL"
    "yfFg2TQnZnrcZVJ0WfsDgKAK2YLjkvQv5mHWxQAP49NJKN987qS/17ffdaeq+FG1j1hyUiafhc3pe7p34y0q4Vmns+AwIA"
    "eD9RdVXd2l9tkhpBPAH2C8ffy39++ir/f9jJljBzbF3l1/7Q3VoFztgebE2+I+YkjBJoMarC07a+PbM6iT/JqFjru+Q4uN"
    "+3rzc1npggm6pHL2NQYlvmy0ToFT130Ko/UhC7py7XWRqAuM5aaa8Z5fe+g2r4vqzvndarGsODRWe49DhLC+ssy7221K5k"
    "NRsgNcIl/R/lL3FdiE47zjaPg9X4oOmYN7lf2ZbCvWbkMLwK4R1b9YeV6HA+gS+q76GAx2dS3SMGpAX/eLSi+MWACSyFnX"
    "OXoC1kpTOqM/5sssknQLOvTaOPofTFSqZ9NB60l/7UYAEjXIDgWTrteYaTo60u/6b4rBxhOg0xloZouVDqcfUUzPBgxO0w"
    "1Hx9Hak5bQPLw9aervtQCzA8JqTwOFf9mLUjCi274pMsDDy2kLbsvqm/+mngZxq+v3IAHuU/B5mOBPn19upwAltGLwvpp3"
    "tDdXNA4+xiJNhdaBytXunEP5x7ugqWM8aGsjd2ecTPlpXxcdQfc6Sqc4dD/8GkQ72r/Ebh+7rpKhzcZTkL2eYm8Z5+tqrI"
    "Y2di6oNvE+JVBLFoq6RZ8jjFaVbpruqteS5GC6FMeTCzY6mg2iY3Q+Fb2NJONlzqOEp7i3ttvdCFrTGdUY9Y7E19vV7MXE"
    "Ic80VZ2wtcKHBnuc02/GmiAnJt9ugRzhkEC2L6AbQqcYO/WmKPK22r/hCglK3UDf5+jNSsabYxS8C34JCeglZSXRBJfzJw"
    "i9HMoaE5kX6J703iIaZm9spEVh27u6AzDW4qQOiO5L2kxmG48hKL/Lj+Wxh51Qkxb2Kojj3ge9q/xcbQvdoLZW054qWOCS"
    "B2jnH5eCOcE4aSZ2ab8sR6Ns9vP/AYqEjpE="
)
"""Of Places365_val_00000001.jpg to Places365_val_00036500.jpg."""
