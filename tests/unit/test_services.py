import subprocess
import sys
from pathlib import Path

import pytest

from agent.errors import SetupError, UsageError
from agent.providers import services
from agent.providers.anthropic import Anthropic
from agent.providers.openai import OpenAI, site
from agent.providers.script import Script
from agent.providers.services import (
    SERVICES,
    Service,
    build,
    choose,
    models_at,
    silence,
    small,
)
from agent.settings import Given
from tests.conform.wires import asked, heard
from tests.servers import Answer, OpenAIServer, Plain

KEY = Given(value="sk-secret", origin="environment")


def nobody(url: str) -> None:
    return None


def test_a_name_leads_to_its_service() -> None:
    keys = {"ANTHROPIC_API_KEY": KEY, "OPENAI_API_KEY": KEY}
    assert isinstance(build("anthropic/claude-x", keys), Anthropic)
    assert isinstance(build("openai/gpt-x", keys), OpenAI)
    assert isinstance(build("ollama/qwen3:8b", {}), OpenAI)


def test_a_script_is_looked_for_from_the_working_directory(tmp_path: Path) -> None:
    (tmp_path / "replies.yaml").write_text("- text: hello\n", encoding="utf-8")
    provider = build("script/replies.yaml", {}, cwd=tmp_path)
    assert isinstance(provider, Script)
    assert heard(provider, asked("hi"))[0].message.text == "hello"


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("antropic/claude-x", "anthropic/claude-x"),
        ("claude-x", "anthropic/claude-x"),
        ("gpt-5", "openai/gpt-5"),
        ("olama/x", "ollama/x"),
        ("anthropic", "anthropic/claude"),
        ("anthropic/", "anthropic/claude"),
        ("", "services: anthropic"),
        ("/x", "services: anthropic"),
    ],
)
def test_a_wrong_name_is_met_with_a_right_one(name: str, hint: str) -> None:
    with pytest.raises(UsageError) as caught:
        build(name, {"ANTHROPIC_API_KEY": KEY})
    assert hint in caught.value.hint


def test_a_missing_key_or_url_is_named() -> None:
    with pytest.raises(SetupError, match="ANTHROPIC_API_KEY is not set"):
        build("anthropic/claude-x", {})
    with pytest.raises(SetupError, match="no base URL") as caught:
        build("compat/x", {})
    assert "COMPAT_BASE_URL" in caught.value.hint


def test_a_server_of_the_user_s_own_is_asked_at_its_url_with_its_key_only() -> None:
    keys = {"OPENAI_API_KEY": KEY}
    with OpenAIServer([Answer("hello")]) as server:
        urls = {"compat": Given(value=server.url, origin="user settings")}
        provider = build("compat/mine", keys, urls=urls, max_output_tokens=77)
        heard(provider, asked("hi"))
        keyed = build("compat/mine", {"COMPAT_API_KEY": KEY}, urls=urls)
        heard(keyed, asked("hi"))
    without, with_key = server.requests
    assert "authorization" not in without.headers
    assert without.json["max_tokens"] == 77
    assert with_key.headers["authorization"] == "Bearer sk-secret"


def test_no_key_is_ever_shown() -> None:
    assert "secret" not in repr(KEY)
    assert "secret" not in repr(build("anthropic/claude-x", {"ANTHROPIC_API_KEY": KEY}))


def test_the_first_service_with_a_key_is_chosen() -> None:
    assert choose({"OPENAI_API_KEY": KEY}, nobody).startswith("openai/")
    keys = {"OPENAI_API_KEY": KEY, "ANTHROPIC_API_KEY": KEY}
    assert choose(keys, nobody).startswith("anthropic/")
    blank = {"ANTHROPIC_API_KEY": Given(value=" ", origin="x"), "OPENAI_API_KEY": KEY}
    assert choose(blank, nobody).startswith("openai/")


def test_else_the_first_local_server_that_answers_is() -> None:
    def probe(url: str) -> tuple[str, ...] | None:
        return ("nomic-embed-text", "qwen3:8b", "other") if ":1234" in url else None

    assert choose({}, probe) == "lmstudio/qwen3:8b"


def test_else_it_is_said_how_to_get_one() -> None:
    with pytest.raises(SetupError, match="no model is set up") as caught:
        choose({}, nobody)
    for words in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "ollama"):
        assert words in caught.value.hint


def test_a_local_server_is_asked_for_its_models() -> None:
    with OpenAIServer([Answer("x")]) as server:
        server.models = ("one", "two")
        assert models_at(server.url + "/v1") == ("one", "two")
    assert models_at(server.url + "/v1") is None


def test_a_port_at_which_something_else_listens_has_no_models() -> None:
    with OpenAIServer([Plain(200, b"hello")]) as server:
        server.models = ()
        assert models_at(server.url) == ()
        assert models_at(f"http://127.0.0.1:{server.port}/\u00e9") is None


def test_the_small_model_is_of_the_same_service() -> None:
    assert small("anthropic/claude-opus-5-5") == f"anthropic/{SERVICES['anthropic'].small}"
    assert small("ollama/qwen3") == "ollama/qwen3"
    assert small("script/x.yaml") == "script/x.yaml"


def test_a_service_that_thinks_unseen_may_be_silent_for_longer_at_first() -> None:
    assert silence("openai/gpt-x", 60) == 300
    assert silence("openai/gpt-x", 900) == 900
    assert silence("anthropic/x", 60) == silence("script/x", 60) == 60


def test_nothing_heavy_is_loaded_before_a_model_is_asked() -> None:
    code = (
        "import sys; from agent.providers import services, retry, watch\n"
        "from agent.settings import Given\n"
        "key = Given(value='k', origin='x')\n"
        "services.build('anthropic/x', {'ANTHROPIC_API_KEY': key})\n"
        "services.build('ollama/x', {})\n"
        "print({'anthropic', 'httpx2', 'yaml', 'pydantic'} & {*sys.modules})"
    )
    command = [sys.executable, "-c", code]
    root = Path(services.__file__).parents[2]
    made = subprocess.run(command, capture_output=True, cwd=root, check=True, timeout=30)
    assert made.stdout == b"set()\n"


def test_each_service_of_the_contract_has_a_row_a_key_and_a_place() -> None:
    names = "anthropic openai gemini openrouter groq deepseek mistral xai together fireworks"
    more = "cerebras perplexity kimi ollama lmstudio llamacpp vllm compat"
    assert {*names.split(), *more.split()} == {*SERVICES}
    for row in SERVICES.values():
        assert row.key.endswith("_API_KEY")
        assert row.url_variable.endswith("_BASE_URL")
        assert row.key.removesuffix("_API_KEY") == row.url_variable.removesuffix("_BASE_URL")
        if row.url:
            assert row.url.startswith("http://127.0.0.1:" if row.port else "https://")


@pytest.mark.parametrize("row", [row for row in SERVICES.values() if row.wire == "openai"])
def test_a_service_of_chat_completions_is_asked_with_its_own_key_in_its_own_dialect(
    row: Service,
) -> None:
    with OpenAIServer([Answer("hello")]) as server:
        place = Given(value=server.url + "/v1", origin="user settings")
        provider = build(f"{row.name}/some/model", {row.key: KEY}, urls={row.name: place})
        assert heard(provider, asked("hi"))[0].message.text == "hello"
    sent = server.requests[0]
    assert sent.headers["authorization"] == "Bearer sk-secret"
    assert sent.json["model"] == "some/model"
    assert row.dialect.limit in sent.json
    assert ("stream_options" in sent.json) == row.dialect.counts


def test_a_key_that_comes_with_no_known_model_asks_for_one() -> None:
    with pytest.raises(SetupError, match="GROQ_API_KEY is set") as caught:
        choose({"GROQ_API_KEY": KEY}, nobody)
    assert "groq/NAME" in caught.value.hint
    found = choose({"GROQ_API_KEY": KEY}, lambda url: ("qwen",) if ":8000" in url else None)
    assert found == "vllm/qwen"


def test_the_one_service_without_v1_in_its_address_is_asked_without_it() -> None:
    row = SERVICES["perplexity"]
    assert site(row.url, row.root) == "https://api.perplexity.ai"
    assert site(SERVICES["groq"].url, SERVICES["groq"].root) == "https://api.groq.com/openai/v1"
