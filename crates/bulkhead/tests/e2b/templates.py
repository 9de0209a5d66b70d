"""Snapshots, copies and templates: what rooms begin with."""

import os
import pathlib
import tempfile

from e2b import NotFoundException, Sandbox, Template, default_build_logger
from e2b.exceptions import BuildException

# A snapshot holds the disk; rooms that begin with it are independent.
room = Sandbox.create(timeout=60)
room.files.write("note", "from the first")
named = room.create_snapshot(name="mine")
plain = room.create_snapshot()
assert named.snapshot_id == "mine:default", named
room.files.write("note", "changed later")
one, other = (Sandbox.create(it.snapshot_id, timeout=60) for it in (named, plain))
assert one.files.read("note") == other.files.read("note") == "from the first"
one.files.write("note", "one's own")
assert other.files.read("note") == "from the first"
assert {it.snapshot_id for it in room.list_snapshots().next_items()} == {
    named.snapshot_id,
    plain.snapshot_id,
}
one.kill()
other.kill()
for snapshot in (named, plain):
    assert Sandbox.delete_snapshot(snapshot.snapshot_id)
    assert not Sandbox.delete_snapshot(snapshot.snapshot_id)
try:
    Sandbox.create(named.snapshot_id, timeout=60)
    raise AssertionError("a snapshot that is gone was found")
except Exception as error:
    assert not isinstance(error, AssertionError), error

# Copies of a room that runs: each with the disk, and nobody's name but its own.
copies = room.fork(count=3)
assert len({it.sandbox_id for it in copies} | {room.sandbox_id}) == 4
seen = set()
for copy in copies:
    assert copy.files.read("note") == "changed later"
    copy.files.write("note", copy.sandbox_id)
    line = "cat /etc/machine-id /proc/sys/kernel/hostname; echo $E2B_SANDBOX_ID"
    said = copy.commands.run(line).stdout
    assert copy.sandbox_id in said, said
    seen.add(said)
assert len(seen) == 3
assert room.files.read("note") == "changed later"
for copy in copies:
    copy.kill()
room.kill()

# A template: files, variables, commands, a start command.
with tempfile.TemporaryDirectory() as context:
    pathlib.Path(context, "app").mkdir()
    pathlib.Path(context, "app", "index.html").write_text("served")
    template = (
        Template(file_context_path=context)
        .from_template("base")
        .set_envs({"GREETING": "hello"})
        .set_workdir("/home/user/site")
        .copy("app", "/home/user/site")
        .run_cmd("echo $GREETING > greeting && ls")
        .set_start_cmd("python3 -m http.server 8000", "curl -fs http://127.0.0.1:8000/greeting")
    )
    lines = []
    built = Template.build(template, "my-site", on_build_logs=lambda it: lines.append(it.message))
assert Template.exists("my-site")
assert any("index.html" in it for it in lines), lines
room = Sandbox.create("my-site", timeout=60)
line = "for i in $(seq 100); do curl -fs http://127.0.0.1:8000/index.html && break; sleep 0.1; done"
assert room.commands.run(line).stdout == "served"
assert room.commands.run("echo $GREETING; cat /home/user/site/greeting").stdout == "hello\nhello\n"
room.kill()

# What was built before is not built again, unless that is wanted.
def identity(second, **options):
    first = Template().from_template("base").set_user("user").set_envs({"A": "b"})
    first = first.set_workdir("/home/user/w")
    template = first.run_cmd("cat /proc/sys/kernel/random/uuid > id").run_cmd(second)
    lines = []
    Template.build(template, "kept", on_build_logs=lambda it: lines.append(it.message), **options)
    room = Sandbox.create("kept", timeout=60)
    said = room.commands.run("cat w/id; cat w/second; echo $A").stdout.split()
    room.kill()
    return said, [it for it in lines if it.startswith("CACHED")]


one, cached = identity("echo one > second")
assert one[1:] == ["one", "b"] and not cached, (one, cached)
other, cached = identity("echo other > second")
assert other == [one[0], "other", "b"] and len(cached) == 4, (other, cached)
again, cached = identity("echo other > second", skip_cache=True)
assert again[0] != one[0] and not cached, (again, cached)
assert Template.exists("kept") and Sandbox.delete_snapshot("kept")

# Tags name versions.
Template.assign_tags("my-site", ["stable"])
assert {it.tag for it in Template.get_tags("my-site")} == {"default", "stable"}
Sandbox.create("my-site:stable", timeout=60).kill()
Template.remove_tags("my-site", ["stable"])
assert {it.tag for it in Template.get_tags("my-site")} == {"default"}

# A step that fails says which and why, and nothing comes of it.
for broken, wanted in [
    (Template().from_template("base").run_cmd("echo before; exit 3"), "exit status 3"),
    (Template().from_template("base").run_cmd("whoami", user="root123"), "root123"),
    (Template().from_template("base").set_user("root").run_cmd("id"), "root"),
    (Template().from_template("nobody").run_cmd("true"), "nobody"),
]:
    try:
        Template.build(broken, "broken")
        raise AssertionError(wanted)
    except BuildException as error:
        assert wanted in str(error), error
assert not Template.exists("broken")

print("all well")
