//! Libraries that programs fetch with.

use std::path::Path;

use bulkhead_spec::{Access, GuestPath, HostPath, Mount};

use super::{NO_PROXY, house, out};

const NODE: &str = "NODE_EXTRA_CA_CERTS=$PWD/ca.pem node -e \"fetch('https://files.example.com/hello').then(it => it.text()).then(it => process.stdout.write(it))\"";

#[tokio::test]
async fn node_fetches_with_and_without_a_proxy() {
    super::greets(NODE, "hello\n").await;
}

const PYTHON: &str = "
import asyncio, ssl, sys
url = 'https://files.example.com/hello'
trust = ssl.create_default_context(cafile='ca.pem')

def by_requests():
    import requests
    return requests.get(url, verify='ca.pem', timeout=30).text

def by_httpx():
    import httpx
    return httpx.get(url, verify=trust, timeout=30).text

def by_aiohttp():
    import aiohttp
    async def get():
        async with aiohttp.ClientSession(trust_env=True) as session:
            async with session.get(url, ssl=trust) as answer:
                return await answer.text()
    return asyncio.run(get())

for by in (by_requests, by_httpx, by_aiohttp):
    sys.stdout.write(by())
";

#[tokio::test]
#[ignore = "needs what scripts/install-sdks.sh installs"]
async fn requests_httpx_and_aiohttp_fetch_with_and_without_a_proxy() {
    let sdks = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/sdks/clients");
    let sdks = sdks.canonicalize().unwrap();
    let (house, _world) = house();
    std::fs::write(house.workspace().join("fetch.py"), PYTHON).unwrap();
    let run = format!("{}/bin/python fetch.py", sdks.display());
    let both = format!("{run}\n{NO_PROXY}\n{run}");
    let ask = out(&house, &["files.example.com"], &both).with(|it| {
        it.spec.mounts.push(Mount {
            from: HostPath::try_from(sdks.clone()).unwrap(),
            to: GuestPath::try_from(sdks).unwrap(),
            access: Access::ReadOnly,
        });
    });
    assert_eq!(house.says(ask).await, "hello\n".repeat(6));
}
