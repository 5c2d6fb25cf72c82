from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Optional as _Optional

DESCRIPTOR: _descriptor.FileDescriptor

class Piece(_message.Message):
    __slots__ = ("taken", "part", "last", "finished")
    TAKEN_FIELD_NUMBER: _ClassVar[int]
    PART_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    FINISHED_FIELD_NUMBER: _ClassVar[int]
    taken: int
    part: bytes
    last: bytes
    finished: bool
    def __init__(self, taken: _Optional[int] = ..., part: _Optional[bytes] = ..., last: _Optional[bytes] = ..., finished: bool = ...) -> None: ...
