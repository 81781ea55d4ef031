"""Files that something has happened to, for the tests that read them."""

from hypothesis import strategies as st


@st.composite
def damaged(draw, content):
    """The content with bits turned, a piece cut out, doubled or written over, or its end lost."""
    content = bytearray(content)
    for _ in range(draw(st.integers(1, 4))):
        place = draw(st.integers(0, max(len(content) - 1, 0)))
        length = draw(st.integers(1, 40))
        how = draw(st.sampled_from(["flip", "flip", "cut", "truncate", "double", "write", "zero", "ones"]))
        if how == "flip" and content:
            content[place] ^= 1 << draw(st.integers(0, 7))
        elif how == "cut":
            del content[place : place + length]
        elif how == "truncate":
            del content[place:]
        elif how == "double":
            content[place:place] = content[place : place + length]
        elif how == "write":
            content[place : place + length] = draw(st.binary(min_size=1, max_size=8))
        else:
            content[place : place + length] = (b"\0" if how == "zero" else b"\xff") * length
    return bytes(content)
