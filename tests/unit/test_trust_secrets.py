"""Secrets, by the names and the shapes that they are known by."""

from __future__ import annotations

import time

import pytest

from worldsize.trust.secret_names import is_secret_name
from worldsize.trust.secrets import (
    MASK,
    mask,
    mask_argv,
    mask_text,
    mask_tree,
    mask_values,
    secret_values,
)

SECRET_NAMES = """
HF_TOKEN HUGGING_FACE_HUB_TOKEN GITHUB_TOKEN API_TOKENS WANDB_API_KEY OPENAI_API_KEY APIKEY AWS_SECRET_ACCESS_KEY secret
DB_PASSWORD dbPassword PGPASSWORD MYSQL_PWD DB_PASS SSH_PASSPHRASE MY_CREDENTIALS AZURE_CLIENT_SECRET clientSecret
BASIC_AUTH COOKIE SESSION_COOKIES AZURE_STORAGE_SAS AZURE_STORAGE_CONNECTION_STRING connectionString --api-key
GOOGLE_APPLICATION_CREDENTIALS AccountKey authToken http.proxy.password x_amz_signature
SSHPASS TS_AUTHKEY PRIVATEKEY SSHKEY BINDPW LDAP_BINDPW PASSKEY APIKEYS
GITHUB_PAT patHuggingFace PATH_TOKEN PAT_PATH patPath pat_path pathToken DBPASS pgpass
"""

PUBLIC_NAMES = """
PWD OLDPWD PATH HOME TOKENIZERS_PARALLELISM KEYBOARD MONKEY_BUSINESS AUTHOR AUTHORS COMPASS BYPASS_CACHE PASSES USER
CUDA_VISIBLE_DEVICES CONNECTIONS PWDX SASHA SIGNAL DESIGN lr WORLD_SIZE NCCL_SOCKET_IFNAME PYTHONPATH MANPATH_2
PAD_TOKEN eos_token_id --mask-token additional_special_tokens
"""

TOKENS = """
ghp_ gho_ ghs_ ghu_ ghr_ github_pat_ glpat- hf_ xoxb- xoxp- sk- AKIA eyJhbGciOi. sk_live_ rk_test_ AIza pypi-AgE
tskey-auth-
"""


@pytest.mark.parametrize("name", SECRET_NAMES.split())
def test_secret_names(name):
    assert is_secret_name(name) and mask(name, "hunter2") == "***" and mask(name, "") == ""


@pytest.mark.parametrize("name", PUBLIC_NAMES.split())
def test_public_names(name):
    assert not is_secret_name(name) and mask(name, "plain") == "plain"


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("postgres://me:pa:ss@w@db/x", "postgres://me:***@db/x"),
        ("http://:p@proxy:3128", "http://:***@proxy:3128"),
        ("clone https://ghp_abc@github.com/x.git", "clone https://***@github.com/x.git"),
        ("https://anna@corp.com:hunter2@host/x", "https://anna@corp.com:***@host/x"),
        ("postgresql://anna@srv:S3'c@h/db", "postgresql://anna@srv:***@h/db"),
        ("https://anna@corp.com:a/b@host/x", "https://***@corp.com:***@host/x"),
        ("https://to@ken@host/x", "https://***@host/x"),
        ("pk @ git+https://hunter2@host/x", "pk @ git+https://***@host/x"),
        ("sparse+http://hunter2@host/x", "sparse+http://***@host/x"),
        ("https://hunter2:x-oauth-basic@host/x", "https://***:***@host/x"),
        ("--find-links https://hunter2:@host/x", "--find-links https://***:***@host/x"),
        ("https://0123456789abcdef0123:x@host", "https://***:***@host"),
        ("https://ghp_abcdefghijkl:any@host", "https://***:***@host"),
        ("git+ssh://0123456789abcdef0123@host/x", "git+ssh://***@host/x"),
        ("git+ssh://somebodywithalongname@host/x", "git+ssh://somebodywithalongname@host/x"),
        ("ssh://git@host/x", "ssh://git@host/x"),
        ("ssh://git@host:22/a@b", "ssh://git@host:22/a@b"),
        ("http://host:8080/a@b", "http://host:8080/a@b"),
        ("Authorization: Bearer abcdefgh.ijkl", "Authorization: Bearer ***"),
        ("token hf_abcdefghijklmnop here", "token *** here"),
        *((token + "0123456789ABCDEFABCD", "***") for token in TOKENS.split()),
        ("npm_%s" % ("aB3" * 12), "***"),
        ("npm_config_registry=x npm_lifecycle_event", "npm_config_registry=x npm_lifecycle_event"),
        ("ASIA0123456789ABCDEF", "***"),
        ("ASIAN languages in EURASIA", "ASIAN languages in EURASIA"),
        ("a\r--token abc", "a\r--token ***"),
        ("https://a.blob/x?sv=1&sig=ab%3D&se=2", "https://a.blob/x?sv=1&sig=***&se=2"),
        ("Endpoint=x;AccountKey=abc==;More=1", "Endpoint=x;AccountKey=***;More=1"),
        ("export HF_TOKEN='a b'; LR=1 python t.py", "export HF_TOKEN=***; LR=1 python t.py"),
        ("URL=ftp://u:p@h/ x", "URL=ftp://u:***@h/ x"),
        ("--token 'a b' --lr 1", "--token *** --lr 1"),
        ("python t.py\n--api-key abc", "python t.py\n--api-key ***"),
        ("python t.py --token $TOKEN", "python t.py --token $TOKEN"),
        ("curl -H 'X-Api-Key: abc' -H 'Accept: text/html' h", "curl -H 'X-Api-Key: ***' -H 'Accept: text/html' h"),
        ("curl -H 'Authorization: token abcdefgh' h", "curl -H 'Authorization: token ***' h"),
        ("Authorization: token abcdefgh", "Authorization: token ***"),
        ('{"db": {"password": "x y", "port": 1}}', '{"db": {"password": "***", "port": 1}}'),
        ("KeyError: 'key: x' in 'keys: a, b'", "KeyError: 'key: x' in 'keys: a, b'"),
        ("a\n-----BEGIN RSA PRIVATE KEY-----\nMII\n-----END RSA PRIVATE KEY-----\nb", "a\n***\nb"),
        ("-----BEGIN PRIVATE KEY-----\nMII", "***"),
        ("lr=0.1 task-sk-learn half_a_dozen_things", "lr=0.1 task-sk-learn half_a_dozen_things"),
        ("rs=0:di=01;34:ln=01;36", "rs=0:di=01;34:ln=01;36"),
        ("\udcff\n", "\udcff\n"),
        ("X-Authorization: Bearer abc", "X-Authorization: Bearer ***"),
        ("curl -H 'Proxy-Authorization: Basic YWJj'", "curl -H 'Proxy-Authorization: Basic ***'"),
        ("export HF_TOKEN=$(cat ~/.tok)", "export HF_TOKEN=$(cat ~/.tok)"),
        ('x --token "$(cat f)" --lr 1', 'x --token "$(cat f)" --lr 1'),
        ("pip install google-auth==2.29.0 PyJWT==2.8", "pip install google-auth==2.29.0 PyJWT==2.8"),
        ("https://me:pa'ss\"w@h/x", "https://me:***@h/x"),
        ("https://me:pa/ss@h/x", "https://me:***@h/x"),
        ('{"a":"http://h:80","b":"x@y"}', '{"a":"http://h:80","b":"x@y"}'),
        ("git+https://h:443/x@v1 file://C:/a@b", "git+https://h:443/x@v1 file://C:/a@b"),
        ("--token ab'cd'\"ef --lr 1", "--token *** --lr 1"),
        ("sh -c 'x --token ab' --lr 1", "sh -c 'x --token ***' --lr 1"),
        ('["--token ab","c"]', '["--token ***","c"]'),
        ("HF_TOKEN=ab|cd'ef x", "HF_TOKEN=*** x"),
        ("x --password '$ecret' --token \"$TOKEN\"", 'x --password *** --token "$TOKEN"'),
        ("x --token '${{inputs.token}}'", "x --token '${{inputs.token}}'"),
        ("X-Api-Key: abc", "X-Api-Key: ***"),
        ("curl -H X-Api-Key:abc -H 'X-Auth-Token:abc' h", "curl -H X-Api-Key:*** -H 'X-Auth-Token:***' h"),
        ("the sort-key: loss", "the sort-key: ***"),
        ("x --api-key \\\n  Abc1 --lr 1", "x --api-key \\\n  *** --lr 1"),
        ("x --password a\\ b c A_TOKEN=a\\ b c", "x --password *** c A_TOKEN=*** c"),
        ('{"password": "a\\"b c", "x": "it\'s"}', '{"password": "***", "x": "it\'s"}'),
        ('{"password": "a\'b c"}', '{"password": "***"}'),
    ],
)
def test_secrets_in_text(text, masked):
    assert mask_text(text) == masked


@pytest.mark.heavy
def test_masking_is_linear():
    parts = (
        "a-",
        "eyJ-",
        "://a:",
        "a.b+",
        "-",
        "=",
        "'a",
        "'a: ",
        "/t/",
        "a://h/t",
        "Authorization: ",
        "-a ",
        "a://b:c/",
        "a://b:c'",
        "--token x'",
        "--token x\"y'",
        "A_TOKEN=\"x'",
        "a-b: ",
        "a-",
        "-----BEGIN PRIVATE KEY-----",
    )
    for text in (part * (400_000 // len(part)) for part in parts):
        assert len(mask_text(text)) == len(text) or "***" in mask_text(text)


def test_secrets_in_a_command_line():
    argv = [
        "run",
        "--api-key",
        "abc",
        "--set",
        "inputs.password=x",
        "--token=y",
        "--password",
        "--lr",
        "0.1",
        "https://u:p@h",
        "-token",
        "z",
    ]
    assert mask_argv(argv) == [
        *("run", "--api-key", "***", "--set", "inputs.password=***", "--token=***", "--password", "--lr", "0.1"),
        *("https://u:***@h", "-token", "***"),
    ]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("HF_TOKEN", "letmein"),
        ("HF_TOKEN_2", "letmein"),
        ("API_KEY", "12345678"),
        ("api-key", "letmein"),
        ("dbPassword", "/x/y"),
        ("CLIENT_SECRET", "1"),
        ("SESSION_COOKIE", "abc"),
        ("LICENSE_KEY", "abc"),
        ("connectionString", "abc"),
        ("SORT_KEY", "loss-1A"),
        ("SORT_KEY", "LoSs"),
        ("HF_TOKEN", "/8fk3d"),
    ],
)
def test_what_is_a_secret_where_a_masked_one_is_lost(name, value):
    assert mask_tree({name: value}, sparing=True) == {name: MASK}
    assert mask_text("%s=%s" % (name, value)) == "%s=***" % name


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("MAX_TOKENS", "100"),
        ("TOKEN_COUNT", "100"),
        ("SORT_KEY", "loss"),
        ("KEY", "Release"),
        ("KEY_FILE", "~/.ssh/key"),
        ("HF_TOKEN", "1"),
        ("HF_TOKEN", "True"),
        ("HF_TOKEN", "~/.cache/token"),
        ("API_KEY", "/run/keys/api"),
        ("PAD_TOKEN", "<pad>"),
        ("AUTH_MODE", "basic"),
        ("max_tokens", 100),
    ],
)
def test_what_stays_where_a_masked_one_is_lost(name, value):
    assert mask_tree({name: value}, sparing=True) == {name: value}


def test_an_option_and_its_value_in_one_word_hide_no_other() -> None:
    """Found by review: what stood after `--find-links /x/auth` in a list was taken for its value."""
    assert mask_argv(["--find-links /x/auth", "demo", "-r /home/pat/r.txt", "b"])[1::2] == ["demo", "b"]


def test_numbers_under_the_name_of_a_secret():
    assert mask_tree({"inputs": {"api_key": 12345678, "pad_token": 2, "tokens": 4096, "secret": True}}) == {
        "inputs": {"api_key": MASK, "pad_token": 2, "tokens": 4096, "secret": True}
    }


def test_only_what_can_be_told_from_other_text_is_looked_for_elsewhere():
    named = {
        "HF_TOKEN": "train",
        "API_KEY": "letmein1",
        "A_TOKEN": "longwords",
        "B_TOKEN": "x1!",
        "N": "named",
        "M": "m",
    }
    assert secret_values(named, ["N"]) == ["letmein1", "longwords", "named"]


def test_text_that_is_nested_deep_or_long() -> None:
    """Found by review: each `=` was another call, and words with many hyphens took the square of their length."""
    assert "hunter2" not in mask_text("a=" * 2000 + "key=hunter2")
    assert mask_text("XLA_FLAGS=" + ",".join("x%d=1" % number for number in range(20)))[-6:] == ",x19=1"
    before = time.process_time()
    mask_text("-".join(["a"] * 200_000) + ": x")
    assert time.process_time() - before < 5  # it took minutes


def test_the_names_of_what_is_looked_for_are_looked_through_too() -> None:
    """Found by review: a tag's name held what an input had."""
    assert mask_values({"k hunter2": {"hunter2": 1}}, ["hunter2"]) == {"k ***": {"***": 1}}
