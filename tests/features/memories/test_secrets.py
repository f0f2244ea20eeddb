"""Secrets are detected by their format; long random strings are not."""

import pytest

from holdfast.kernel.text.content_scan import find_in_value, find_secrets, redact_text, redact_value

SECRETS = {
    "aws access key": "AKIA" + "IOSFODNN7ABCDEFG"[:16].replace("7", "7"),
    "github token": "ghp_" + "aB3d" * 9,
    "gitlab token": "glpat-" + "x7" * 10,
    "slack token": "xoxb-" + "123456789012-abcdefghij",
    "stripe key": "sk_live_" + "4eC39HqLyjWDarjt",
    "anthropic key": "sk-ant-" + "api03-abcDEF123456ghiJKL",
    "openai key": "sk-proj-" + "abc123DEF456ghi789JKL012",
    "google api key": "AIza" + "SyA1234567890abcdefghijklmnopqrstuv"[:35],
    "npm token": "npm_" + "a1B2" * 9,
    "holdfast key": "hf_" + "a1-B2_c3D4" * 4 + "xyz",
    "json web token": "eyJhbGciOiJIUzI1NiJ9" + ".eyJzdWIiOiIxMjM0NTY3ODkwIn0" + ".dozjgNryP4J3jVmNHl0w5N",
    "private key": "-----BEGIN RSA PRIVATE " + "KEY-----\nMIIEowIBAAKCAQEA\n-----END RSA PRIVATE KEY-----",
    "docker token": "dckr_pat_" + "a1B2-c3D4_e5F6g7H8i9J0k1L2m",
    "age key": "AGE-SECRET-KEY-1" + "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7LQPZRY9X8GF2TVDW0S3JN54KHCE",
    "xai key": "xai-" + "a1B2c3D4" * 10,
    "grafana token": "glsa_" + "a1B2c3D4" * 4 + "_0badcafe",
    "discord token": "MTk4NjIyNDgzNDcxOTI1MjQ4" + ".GhX2Pq" + ".ZnCjm1XVW7vRze4b7Cq4se7kKWs",
    "twilio key": "SK" + "0123456789abcdef" * 2,
    "password": "dXNlcjpwYXNzd29yZDE=",
    "password in a URL": "S3cr3tpw",
}
WRITTEN = {
    "twilio key": "Before, of twilio: {}",
    "password": "Before Authorization: Basic {}",
    "password in a URL": "postgres://bob:{}@db.example/x",
}


@pytest.mark.parametrize("kind", SECRETS)
def test_a_secret_inside_a_text_is_found_and_redacted(kind: str) -> None:
    text = WRITTEN.get(kind, "Before {} after").format(SECRETS[kind])
    assert [secret.kind for secret in find_secrets(text)] == [kind]
    clean, kinds = redact_text(text)
    assert (kinds, SECRETS[kind] in clean, f"[redacted: {kind}]" in clean) == ([kind], False, True)
    assert clean.startswith(text[:7])


@pytest.mark.parametrize(
    "text",
    [
        "password: hunter2x9",
        "API_KEY=8f7d9a6b5c4e3f2a1b0c9d8e",
        "client_secret = 'dGhpc2lzYXNlY3JldDEyMw'",
        "Authorization: Bearer abcDEF123456ghiJKL789012mno",
        "The wifi password is Tr0ub4dor&3.",
        '"token": "q8Zr5tXw2Lp9Vb4N"',
        "Das Passwort ist Tr0ub4dor&3.",
        "Passwort: hunter2x9",
        "Le mot de passe est Tr0ub4dor&3",
        "La contraseña es: Tr0ub4dor&3",
    ],
)
def test_a_plausible_value_assigned_to_a_secret_name_is_a_secret(text: str) -> None:
    assert len(find_secrets(text)) == 1


@pytest.mark.parametrize(
    "text",
    [
        "commit 3f786850e387550fdab836ed7e6dc881de23001b",
        "token: 123e4567-e89b-12d3-a456-426614174000",
        "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk",
        "lorem ipsum dolor sit amet " * 9,
        "the token is validated by the server",
        "The access token expires after 3600 seconds",
        "password: required",
        "secret: see the vault",
        "api_key: ${API_KEY}",
        "api_key = os.environ['API_KEY']",
        "https://user:password@example.com/",
        "token_count: 12345678",
        "sk-learn is no key, and neither is task-oriented-programming-2024",
        "secret santa on 2024-12-24",
        "a basic understanding of Basic programming1 and basic authentication",
        "Das Passwort ist abgelaufen, la contraseña es obligatoria, le mot de passe est requis",
        "SK0123456789abcdef0123456789abcdef",
        "xai-explainability-methods and Module.Generic.ConfigurationOfTheWholeSystem",
        "パスワード: 必須",
        "",
    ],
)
def test_lookalikes_are_not_secrets(text: str) -> None:
    assert find_secrets(text) == []


@pytest.mark.parametrize(
    "shape",
    [
        "a",
        "sk-",
        "token:",
        "eyJ",
        "-----BEGIN PRIVATE KEY-----",
        "://",
        "a://b:",
        "password is ",
        "secret_a_",
        "\n",
        "ghp_a",
        "basic a",
        "mot de passe est ",
        "M.G",
    ],
)
def test_a_megabyte_of_hostile_text_is_scanned_quickly(shape: str) -> None:
    find_secrets(shape * (1_000_000 // len(shape)))


def test_a_json_value_is_redacted_at_every_depth() -> None:
    token = SECRETS["github token"]
    value = {"a": [{"password": "hunter2x9", "n": 1}], token: (token, None), "token": "none"}
    assert redact_value(value) == {
        "a": [{"password": "[redacted: password]", "n": 1}],
        "[redacted: github token]": ("[redacted: github token]", None),
        "token": "none",
    }
    assert {place.field for place in find_in_value("metadata", value)} == {
        "metadata.a.password",
        "metadata",
        f"metadata.{token}",
    }
