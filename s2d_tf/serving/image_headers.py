"""The size of a JPEG or PNG file from its header, before anything is decoded."""

import struct

_PNG_START = b"\x89PNG\r\n\x1a\n"
_JPEG_START = b"\xff\xd8"
# Segments that start a frame and so hold its size: all SOF markers; C4, C8 and CC are others.
_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
# Markers that stand alone, without a length: TEM, RST0 to RST7, SOI.
_ALONE = frozenset({0x01, *range(0xD0, 0xD9)})


def image_size(content):
    """(height, width) as the file's header claims them.

    Raises:
        ValueError: the content is neither JPEG nor PNG, or ends before its size is given.
    """
    if content.startswith(_PNG_START):
        if len(content) < 24 or content[12:16] != b"IHDR":
            raise ValueError("a damaged PNG file")
        width, height = struct.unpack(">II", content[16:24])
        return height, width
    if content.startswith(_JPEG_START):
        return _jpeg_size(content)
    raise ValueError("something else" if content else "an empty file")


def _jpeg_size(content):
    position = len(_JPEG_START)
    while position + 4 <= len(content):
        if content[position] != 0xFF:
            break
        marker = content[position + 1]
        if marker == 0xFF:  # padding
            position += 1
        elif marker in _ALONE:
            position += 2
        elif marker in _FRAMES:
            if position + 9 > len(content):
                break
            return struct.unpack(">HH", content[position + 5 : position + 9])
        else:
            (length,) = struct.unpack(">H", content[position + 2 : position + 4])
            if length < 2:
                break
            position += 2 + length
    raise ValueError("a damaged JPEG file")
