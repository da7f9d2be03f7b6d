"""Images as a model can look at them."""

import base64

from agent.message import Image

MOST = 5 << 20  # characters of base64; a service refuses the whole request over one that is larger
HEAD = 16  # bytes that tell an image
SIDE = 8000  # pixels; a service refuses the whole conversation over an image that is larger
SEGMENTS = 1000  # of a JPEG, that are looked through for its size


def media_type(head: bytes) -> str:
    """What kind of image begins so; "" for none that models take."""
    if head.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if head.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if head.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    if head.startswith(b"RIFF") and head[8:12] == b"WEBP":
        return "image/webp"
    return ""


def complete(data: bytes) -> bool:
    """Whether the image has its end. A service may refuse a conversation for good that holds a cut
    one."""
    match media_type(data):
        case "image/png":
            return b"IEND" in data[-64:]
        case "image/jpeg":
            return b"\xff\xd9" in data[-65536:]
        case "image/gif":
            return b"\x3b" in data[-64:]
        case "image/webp":
            return len(data) >= int.from_bytes(data[4:8], "little") + 8
        case _:
            return False


def sides(data: bytes) -> tuple[int, int]:
    """Width and height in pixels, as the file says; (0, 0) where it does not. Nothing is unpacked.

    PNG (W3C, 11.2.2), GIF89a (18), WebP (RFC 9649, 2.5 to 2.7), JPEG (ITU T.81, B.2.2).
    """
    number = int.from_bytes
    match media_type(data):
        case "image/png" if data[12:16] == b"IHDR":
            return number(data[16:20]), number(data[20:24])
        case "image/gif":
            return number(data[6:8], "little"), number(data[8:10], "little")
        case "image/webp" if data[12:16] == b"VP8X":
            return number(data[24:27], "little") + 1, number(data[27:30], "little") + 1
        case "image/webp" if data[12:16] == b"VP8L":
            bits = number(data[21:25], "little")
            return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
        case "image/webp" if data[12:16] == b"VP8 ":
            return number(data[26:28], "little") & 0x3FFF, number(data[28:30], "little") & 0x3FFF
        case "image/jpeg":
            return _jpeg(data)
        case _:
            return 0, 0


def _jpeg(data: bytes) -> tuple[int, int]:
    at = 2
    for _ in range(SEGMENTS):
        while data[at : at + 2] == b"\xff\xff":  # a marker may have any number of them before it
            at += 1
        if data[at : at + 1] != b"\xff":
            break
        kind = data[at + 1]
        if 0xC0 <= kind <= 0xCF and kind not in {0xC4, 0xC8, 0xCC}:  # the head of a frame
            return int.from_bytes(data[at + 7 : at + 9]), int.from_bytes(data[at + 5 : at + 7])
        at += 2 + int.from_bytes(data[at + 2 : at + 4])
    return 0, 0


def image(data: bytes) -> Image | str:
    """The image; or in words why no model should be sent it."""
    if len(data) > MOST * 3 // 4:
        return "too large to be looked at"
    if not complete(data):
        return "cut or damaged"
    width, height = sides(data)
    if not 0 < width <= SIDE or not 0 < height <= SIDE:
        return f"too large to be looked at: {width} by {height} pixels" if width else "damaged"
    return Image(media_type=media_type(data), data=base64.b64encode(data).decode())
