"""Three registries as plain files, each with one package that says hello: for pip, npm and cargo."""
import base64, hashlib, io, json, os, sys, tarfile, zipfile

os.chdir(sys.argv[1])


def write(path, content):
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    with open(path, "wb") as file:
        file.write(content if isinstance(content, bytes) else content.encode())


def packed(files):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as tar:
        for name, text in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(text)
            tar.addfile(member, io.BytesIO(text.encode()))
    return out.getvalue()


def wheel():
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        about = "hello-1.0.dist-info"
        archive.writestr("hello.py", "print('hello from pip')\n")
        archive.writestr(f"{about}/METADATA", "Metadata-Version: 2.1\nName: hello\nVersion: 1.0\n")
        archive.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{about}/RECORD", f"hello.py,,\n{about}/METADATA,,\n{about}/WHEEL,,\n{about}/RECORD,,\n")
    return out.getvalue()


write("simple/hello/index.html", '<a href="/wheels/hello-1.0-py3-none-any.whl">hello-1.0-py3-none-any.whl</a>')
write("wheels/hello-1.0-py3-none-any.whl", wheel())

module = packed({
    "package/package.json": json.dumps({"name": "hello", "version": "1.0.0", "main": "index.js"}),
    "package/index.js": "console.log('hello from npm')\n",
})
write("tarballs/hello-1.0.0.tgz", module)
digest = "sha512-" + base64.b64encode(hashlib.sha512(module).digest()).decode()
write("hello-npm/hello", json.dumps({
    "name": "hello",
    "dist-tags": {"latest": "1.0.0"},
    "versions": {"1.0.0": {"name": "hello", "version": "1.0.0", "dist": {
        "tarball": "https://npm.example.com/tarballs/hello-1.0.0.tgz", "integrity": digest}}},
}))

crate = packed({
    "hello-1.0.0/Cargo.toml": '[package]\nname = "hello"\nversion = "1.0.0"\nedition = "2021"\n',
    "hello-1.0.0/src/lib.rs": "pub const HELLO: &str = \"hello from cargo\";\n",
})
write("crates/hello-1.0.0.crate", crate)
write("index/config.json", json.dumps({"dl": "https://crates.example.com/crates/{crate}-{version}.crate"}))
write("index/he/ll/hello", json.dumps({
    "name": "hello", "vers": "1.0.0", "deps": [], "features": {}, "yanked": False,
    "cksum": hashlib.sha256(crate).hexdigest()}) + "\n")
