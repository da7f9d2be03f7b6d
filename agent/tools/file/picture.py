"""Images as a model can look at them."""

import base64

from agent.message import Image

MOST = 5 << 20  # characters of base64; a service refuses the whole request over one that is larger
HEAD = 16  # bytes that tell an image


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


def image(data: bytes) -> Image | str:
    """The image; or in words why no model should be sent it."""
    if len(data) > MOST * 3 // 4:
        return "too large to be looked at"
    if not complete(data):
        return "cut or damaged"
    return Image(media_type=media_type(data), data=base64.b64encode(data).decode())
