"""What the double does wrong on demand, and whom it refuses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
import pytest
from azureml_double.api.account_routes import CLIENT_ID, CLIENT_SECRET
from azureml_double.double import API_VERSION, Double
from sdk import Told

pytestmark = pytest.mark.exhaustive


def with_token(double: Double, token: str) -> Any:
    headers = {"Authorization": "Bearer " + token} if token else {}
    return double.call("GET", "/computes/small", headers=headers)


def log_request(double: Double, job: str) -> tuple[str, dict[str, str]]:
    """The address of a log, by the double's number, and the header that names the host."""
    url = double.details(job)["logFiles"]["user_logs/std_log.txt"]
    host = url.partition("https://")[2].partition("/")[0]
    return url.replace("https://" + host, double.url), {"Host": host}


@pytest.fixture
def job(double: Double, request: pytest.FixtureRequest) -> str:
    """The name of one that has ended; its log is 100 lines of ten characters."""
    name = request.node.name.replace("_", "-")
    double.submit(name, "for n in $(seq 100); do printf '%09d\\n' $n; done")
    assert double.wait(name)["status"] == "Completed"
    return name


def test_too_many_requests_say_when_to_come_again(double: Double) -> None:
    double.fault("/computes/small", status=429, headers={"Retry-After": "7"}, times=2)
    answers = [double.call("GET", "/computes/small") for _ in range(3)]
    assert [answer.status_code for answer in answers] == [429, 429, 200]
    assert answers[0].headers["Retry-After"] == "7"
    assert answers[0].json()["error"]["code"] == "TooManyRequests"


def test_a_fault_may_come_later_and_of_one_method_alone(double: Double) -> None:
    double.fault("/computes/small", method="GET", status=503, skip=1)
    assert [double.call("GET", "/computes/small").status_code for _ in range(3)] == [200, 503, 200]


def test_a_token_ends_in_the_middle(double: Double) -> None:
    token = double.new_token()
    assert with_token(double, token).status_code == 200
    double.revoke(token)
    answer = with_token(double, token)
    assert (answer.status_code, answer.json()["error"]["code"]) == (401, "InvalidAuthenticationToken")
    assert answer.headers["WWW-Authenticate"].startswith("Bearer")
    assert with_token(double, double.new_token()).status_code == 200


def test_strangers_are_refused(double: Double, job: str) -> None:
    assert with_token(double, "").status_code == with_token(double, "wrong").status_code == 401
    assert double.call("DELETE", "/admin/faults", headers={}).status_code == 401
    url, headers = log_request(double, job)
    answer = httpx.get(url.partition("?")[0], headers=headers, verify=double.trust())
    assert (answer.status_code, answer.headers["x-ms-error-code"]) == (404, "ResourceNotFound")


def test_a_secret_gives_a_token(double: Double) -> None:
    form = {"grant_type": "client_credentials", "client_id": CLIENT_ID, "client_secret": CLIENT_SECRET, "scope": "x"}
    place = double.url + "/any-tenant/oauth2/v2.0/token"
    token = httpx.post(place, data=form, verify=double.trust()).json()["access_token"]
    assert with_token(double, token).status_code == 200
    assert httpx.post(place, data={**form, "client_secret": "?"}, verify=double.trust()).status_code == 401


def test_an_answer_is_lost_and_what_was_asked_for_is_done(double: Double) -> None:
    double.fault("/jobs/lost-answer", method="PUT", cut=-1)
    with pytest.raises(httpx.TransportError):
        double.submit("lost-answer", "true")
    assert double.wait("lost-answer")["status"] == "Completed"


def test_a_log_is_cut_in_the_middle(double: Double, job: str) -> None:
    url, headers = log_request(double, job)
    double.fault("std_log.txt", cut=500)
    with pytest.raises(httpx.TransportError):
        httpx.get(url, headers=headers, verify=double.trust())
    assert len(httpx.get(url, headers=headers, verify=double.trust()).content) == 1000


def test_a_log_is_half_written(double: Double, job: str) -> None:
    url, headers = log_request(double, job)
    double.fault("std_log.txt", keep=15)
    assert httpx.get(url, headers=headers, verify=double.trust()).text == "000000001\n00000"


def test_an_address_of_a_log_expires(double: Double, job: str) -> None:
    url, headers = log_request(double, job)
    year = API_VERSION[:4]
    expired = httpx.URL(url).copy_merge_params({"se": "%d-01-01T00:00:00Z" % (int(year) - 5)})
    answer = httpx.get(expired, headers=headers, verify=double.trust())
    assert (answer.status_code, answer.headers["x-ms-error-code"]) == (403, "AuthenticationFailed")


def test_a_fault_that_is_none_is_refused(double: Double) -> None:
    assert double.call("POST", "/admin/faults", {"path": "("}).status_code == 400
    assert double.call("POST", "/admin/faults", {"path": "x", "colour": 1}).status_code == 400


def test_requests_that_are_none_are_refused(double: Double) -> None:
    assert double.call("GET", "/computes/small", params={}).status_code == 400
    assert double.call("PUT", "/jobs/bad", content=b"[").status_code == 400
    assert double.call("PUT", "/jobs/bad%20name", {"properties": {}}).status_code == 400
    assert double.call("PUT", "/jobs/bad", {"properties": {"jobType": "Sweep"}}).status_code == 400
    assert double.call("POST", "/computes/small", {}).status_code == 405
    assert double.call("GET", "/nothing").status_code == 404


def test_azures_client_outlives_what_the_service_does_now_and_then(double: Double, sdk: Callable[[str], Told]) -> None:
    double.fault("/jobs/outlives", method="GET", status=503)
    double.fault("/details", status=429, headers={"Retry-After": "1"})
    double.fault("std_log.txt", status=500)
    told = sdk(
        """
job = command(command="echo hello", environment="azureml://registries/azureml/environments/any/versions/1",
              compute="small", name="outlives")
client.jobs.create_or_update(job)
client.jobs.stream("outlives")
tell("status", client.jobs.get("outlives").status)
"""
    )
    assert told.values["status"] == "Completed"


def test_a_request_of_a_strange_form_is_answered(double: Double) -> None:
    body = {"jobType": "Command", "command": "true", "environmentId": "e", "resources": 3}
    assert double.call("PUT", "/jobs/strange", {"properties": body}).status_code == 400


def test_a_double_that_is_away_answers_when_it_is_back(double: Double) -> None:
    with double.away(), pytest.raises(httpx.TimeoutException):
        double.call("GET", "/computes/small", timeout=0.2)
    assert double.call("GET", "/computes/small").status_code == 200
