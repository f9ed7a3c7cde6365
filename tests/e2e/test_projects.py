"""Projects in PostgreSQL survive rollouts of the server."""

from stack import eventually
from stack.http import ask
from stack.postgres import Postgres
from support.kubernetes import ROLL_OUT
from support.projects import Saves, Writer
from support.releases import Release


def test_no_acknowledged_save_is_lost_by_a_roll_out(
    release: Release, database: tuple[Postgres, Writer, list[str]]
) -> None:
    server, writer, kept = database
    # There is no project traffic yet, so both may restart at once.
    release.upgrade(*kept, "service.rollout.maxUnavailable=2")
    before = release.cluster.wait_for_pods("server", 2)
    eventually(lambda: ask(release.gateway, "/projects").status == 200, patience=ROLL_OUT)
    with Saves(lambda: release.gateway, writer) as saves:
        saves.more(50)
        release.upgrade(*kept, "service.config.limits.queue=77")
        after = release.cluster.wait_for_pods("server", 2)
        saves.more(50)
    assert not {pod.uid for pod in before} & {pod.uid for pod in after}
    saves.check(release)
    assert saves.refused == 0
    ssl = server.query("SELECT bool_and(ssl) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid)")
    assert ssl == [["t"]]
