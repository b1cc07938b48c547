"""What a kept recording is made of: calls of one thread, with numbers in place of addresses."""

from kept_recordings import CHUNK, CHUNK_BYTES, Encoder, encoded, number


def coded(*lines: str) -> bytes:
    encoder = Encoder()
    for line in lines:
        encoder.add(line)
    encoder.end_chunk()
    return encoder.chunks[CHUNK.size :]


def test_numbers_have_seven_bits_a_byte() -> None:
    assert [number(each) for each in (0, 127, 128, 300)] == [b"\0", b"\x7f", b"\x80\1", b"\xac\2"]


def test_threads_times_and_addresses_are_gone() -> None:
    first = coded("1 0 0 malloc 100 -> #1", "2 0 5 free #1")
    assert first == coded("7 3 90 malloc 100 -> #7", "9 1 91 free #7")
    # The head says: the next ticket, no time. Then the size, and the place: one on, and none.
    assert first == bytes([0x61, 100, 1 << 2, 0x66, 0])


def test_a_place_is_used_again() -> None:
    twice = coded("1 0 0 malloc 8 -> #1", "2 0 0 free #1", "3 0 0 malloc 8 -> #3")
    assert twice.endswith(bytes([0x61, 8, 0]))


def test_what_failed_leaves_the_object_where_it_is() -> None:
    lines = ("1 0 0 malloc 8 -> #1", "2 0 0 realloc 900 #1 -> null", "4 0 0 free #1")
    assert coded(*lines).endswith(bytes([0x66, 0]))


def test_what_began_before_the_recording_is_left_out() -> None:
    assert coded("1 0 0 free #?", "2 0 0 thread ends") == b""
    assert coded("1 0 0 free null") == bytes([0x66 | 0x80])


def test_no_more_calls_and_no_longer_chunks_than_allowed() -> None:
    lines = [f"{i} 0 0 malloc 100000 -> #{i}" for i in range(1, 5001)]
    whole = encoded(lines, 4000, ["program"])
    assert whole == encoded(lines[:4000], 9000, ["program"])
    at = 0
    while at < len(whole):
        length = CHUNK.unpack_from(whole, at)[1]
        assert CHUNK.size < length <= CHUNK_BYTES
        at += length
