//! A question for a name: nothing is asked of anybody, and nothing panics.
#![cfg_attr(fuzzing, no_main)]

use std::sync::OnceLock;

use bulkhead_egress::{Entrances, Gateway, GatewayPlan};

fn check(bytes: &[u8]) {
    static GATEWAY: OnceLock<Gateway> = OnceLock::new();
    let gateway = GATEWAY.get_or_init(|| {
        let allow = bulkhead_spec::allowing("good.com", "fuzz").unwrap_or_default();
        let rules = bulkhead_policy::EgressRules::new(allow, Vec::new());
        let plan = GatewayPlan { rules, ..GatewayPlan::default() };
        Gateway::start(plan, Entrances::default(), |_| {}).expect("a gateway")
    });
    gateway.answer(bytes);
}

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| check(bytes));

#[cfg(not(fuzzing))]
fn main() -> std::io::Result<()> {
    for file in std::env::args_os().skip(1) {
        check(&std::fs::read(file)?);
    }
    Ok(())
}
