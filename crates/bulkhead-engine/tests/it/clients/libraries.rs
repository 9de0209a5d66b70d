//! Libraries that programs fetch with.

use std::path::Path;

use super::{
    Ask, House, NO_PROXY, house,
    installers::{sdks, showing},
    out,
};

pub(super) const NODE: &str = "NODE_EXTRA_CA_CERTS=$PWD/ca.pem node -e \"fetch('https://files.example.com/hello').then(it => it.text()).then(it => process.stdout.write(it))\"";

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
    return requests.get(url, verify='ca.pem', timeout=120).text

def by_httpx():
    import httpx
    return httpx.get(url, verify=trust, timeout=120).text

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
    let sdks = sdks();
    let (house, _world) = house();
    fetches(&house, &sdks, |ask| ask).await;
}

/// Each of them, with what `change` adds to the sandbox.
pub(super) async fn fetches(house: &House, sdks: &Path, change: impl FnOnce(Ask) -> Ask) {
    std::fs::write(house.workspace().join("fetch.py"), PYTHON).unwrap();
    let run = format!("{}/bin/python fetch.py", sdks.display());
    let both = format!("{run}\n{NO_PROXY}\n{run}");
    let ask = change(showing(out(house, &["files.example.com"], &both), sdks));
    assert_eq!(house.says(ask).await, "hello\n".repeat(6));
}
