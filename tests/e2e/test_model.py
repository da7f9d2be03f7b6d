"""Another model in a chat under way, at a real terminal."""

from tests.e2e.test_chat_start import chatting, prompted
from tests.e2e.ts import Ts


def test_a_chat_turns_to_another_model_and_the_session_tells_which_one_answered(ts: Ts) -> None:
    one, two = ts.script("from the first"), ts.script("from the second")
    ts.model = one
    with chatting(ts, "hello") as chat:
        chat.expect_exact("from the first")
        prompted(chat)
        chat.send("/model olama/x\r")
        chat.expect_exact("there is no service 'olama'")
        prompted(chat)
        chat.send("/model\r")
        chat.expect_exact("is asked")
        prompted(chat)
        chat.send(f"/model {two}\r")
        chat.expect_exact("is asked")
        prompted(chat)
        chat.send("again\r")
        chat.expect_exact("from the second")
        prompted(chat)
        chat.send("/exit\r")
        chat.expect_exact("goes on with this chat")
    (kept,) = (ts.cwd / ".agent" / "sessions").glob("*.jsonl")
    lines = kept.read_text(encoding="utf-8").splitlines()
    assert any(one in line and "from the first" in line for line in lines)
    assert any(two in line and "from the second" in line for line in lines)
