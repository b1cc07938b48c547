"""Prints, as JSON, the values of the options that are named, as the library here tells them."""

import ctypes
import json
import sys

library = ctypes.CDLL(None)
library.loft_option_get.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_size_t]


def value(name: str) -> str:
    text = ctypes.create_string_buffer(4096)
    library.loft_option_get(name.encode(), text, len(text))
    return text.value.decode()


json.dump({name: value(name) for name in sys.argv[1:]}, sys.stdout)
