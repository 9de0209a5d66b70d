"""Volumes: directories that outlive rooms, and their files without a room."""

from e2b import Sandbox, SandboxException, Volume
from e2b.exceptions import VolumeException, VolumePathNotFoundException

volume = Volume.create("data")
assert [it.name for it in Volume.list()] == ["data"]
assert Volume.connect(volume.volume_id).name == "data"
try:
    Volume.create("data")
    raise AssertionError("made twice")
except VolumeException:
    pass

# What a room writes, the next one and whoever has the volume finds.
first = Sandbox.create(timeout=60, volume_mounts={"/mnt/data": volume})
first.commands.run("mkdir -p /mnt/data/sub && echo from-a-room > /mnt/data/sub/note")
# A link that leads out of the volume leads nowhere from outside.
first.commands.run("ln -s /etc/hostname /mnt/data/out; ln -s ../../../../etc /mnt/data/up")
first.kill()
second = Sandbox.create(timeout=60, volume_mounts={"/elsewhere": "data"})
assert second.files.read("/elsewhere/sub/note") == "from-a-room\n"

assert volume.read_file("/sub/note") == "from-a-room\n"
assert volume.exists("/sub") and not volume.exists("/none")
assert sorted(it.name for it in volume.list("/")) == ["out", "sub", "up"]
info = volume.get_info("/sub/note")
assert (info.path, info.size) == ("/sub/note", 12), info

volume.make_dir("/made/deep", force=True)
volume.write_file("/made/deep/blob", b"\0\xff" * 100_000, force=True)
assert second.commands.run("wc -c < /elsewhere/made/deep/blob").stdout.strip() == "200000"
volume.update_metadata("/made/deep/blob", mode=0o600)
assert second.commands.run("stat -c %a /elsewhere/made/deep/blob").stdout.strip() == "600"
volume.remove("/made")
assert not volume.exists("/made")
for wrong in ["/none", "/../../../etc/passwd"]:
    try:
        volume.read_file(wrong)
        raise AssertionError(wrong)
    except VolumePathNotFoundException:
        pass
second.kill()

try:
    Sandbox.create(timeout=60, volume_mounts={"/mnt": "nobody"})
    raise AssertionError("a volume that is not there was mounted")
except SandboxException:
    pass

assert Volume.destroy(volume.volume_id)
assert not Volume.destroy(volume.volume_id)
assert Volume.list() == []
print("all well")
