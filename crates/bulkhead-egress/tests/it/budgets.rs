//! What may be spent.

use std::sync::Arc;

use bulkhead_egress::GatewayPlan;
use bulkhead_spec::{Budget, EgressEvent, Money};
use http::Response;
use http_body_util::Full;

use crate::{
    servers::{Pki, Web},
    stage::{Stage, World, rules},
    terminated::{say, trusting},
    ways::Way,
};

async fn stage(budgets: &[&str]) -> (Stage, Web) {
    let pki = Pki::new();
    let world = Arc::new(World::default());
    let web = Web::default();
    world.put(
        "api.anthropic.com",
        "203.0.113.1",
        443,
        web.secure(&pki, "api.anthropic.com").await,
    );
    world.put("other.com", "203.0.113.2", 80, web.plain().await);
    let rules = rules(&["api.anthropic.com", "other.com"], &[]);
    let budgets = budgets.iter().map(|it| it.parse::<Budget>().unwrap()).collect();
    (Stage::with(&world, GatewayPlan { rules, budgets, ..trusting(&pki) }), web)
}

async fn ask(stage: &Stage) -> String {
    let request = "POST /v1/messages HTTP/1.1\r\nHost: api.anthropic.com\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}";
    say(stage, Way::Connect, "api.anthropic.com", request).await
}

const WHOLE: &str =
    r#"{"model":"claude-sonnet-4-5","usage":{"input_tokens":300,"output_tokens":100}}"#;

fn whole() -> Response<Full<bytes::Bytes>> {
    Response::builder()
        .header("content-type", "application/json")
        .body(Full::from(WHOLE))
        .unwrap()
}

fn stream() -> Response<Full<bytes::Bytes>> {
    let text = "event: message_start\ndata: {\"message\":{\"model\":\"claude-sonnet-4-5\",\"usage\":{\"input_tokens\":300,\"output_tokens\":1}}}\n\n\
                event: message_delta\ndata: {\"usage\":{\"output_tokens\":100}}\n\n";
    Response::builder()
        .header("content-type", "text/event-stream")
        .body(Full::from(text))
        .unwrap()
}

#[tokio::test]
async fn tokens_are_counted_until_there_are_none_left() {
    let (stage, web) = stage(&["anthropic=1000tokens"]).await;
    for answer in [whole(), stream(), whole()] {
        web.answer(answer);
        assert!(ask(&stage).await.starts_with("HTTP/1.1 200"));
    }
    let said = ask(&stage).await;
    assert!(said.starts_with("HTTP/1.1 429"), "{said}");
    assert!(said.contains("the budget for this host is spent"), "{said}");
    assert!(said.contains("X-Should-Retry: false"), "{said}");
    assert_eq!(web.heard().len(), 3);
    let spent = stage.gateway.usage().budgets.remove(0);
    // 300 at $3 and 100 at $15 for a million, three times.
    assert_eq!((spent.tokens, spent.money), (1200, Money(7200)));
    let events = stage.events.lock().unwrap();
    assert_eq!(events.iter().filter(|it| matches!(it, EgressEvent::BudgetLow(_))).count(), 1);
    assert_eq!(events.iter().filter(|it| matches!(it, EgressEvent::BudgetSpent(_))).count(), 1);
}

#[tokio::test]
async fn money_is_counted_until_there_is_none_left() {
    let (stage, web) = stage(&["anthropic=$0.004"]).await;
    for _ in 0..2 {
        web.answer(whole());
        assert!(ask(&stage).await.starts_with("HTTP/1.1 200"));
    }
    assert!(ask(&stage).await.starts_with("HTTP/1.1 429"));
    // Another host has its own.
    let get = b"GET http://other.com/ HTTP/1.1\r\nHost: other.com\r\nConnection: close\r\n\r\n";
    assert!(crate::ways::raw_http(&stage, get).await.starts_with("HTTP/1.1 200"));
}

#[tokio::test]
async fn a_stream_that_does_not_say_is_counted_by_its_length() {
    let (stage, web) = stage(&["anthropic=100tokens"]).await;
    let text = format!("data: {{\"delta\":\"{}\"}}\n\n", "word ".repeat(200));
    web.answer(
        Response::builder()
            .header("content-type", "text/event-stream")
            .body(Full::from(text))
            .unwrap(),
    );
    assert!(ask(&stage).await.starts_with("HTTP/1.1 200"));
    assert!(stage.gateway.usage().budgets[0].tokens > 200);
    assert!(ask(&stage).await.starts_with("HTTP/1.1 429"));
}

#[tokio::test]
async fn requests_and_bytes_have_budgets_as_well() {
    let (stage, _) = stage(&["other.com=2requests", "*=1MiB"]).await;
    let get = b"GET http://other.com/ HTTP/1.1\r\nHost: other.com\r\nConnection: close\r\n\r\n";
    for _ in 0..2 {
        assert!(crate::ways::raw_http(&stage, get).await.starts_with("HTTP/1.1 200"));
    }
    assert!(crate::ways::raw_http(&stage, get).await.starts_with("HTTP/1.1 429"));
    assert!(stage.gateway.usage().budgets[1].bytes > 0);
    assert!(stage.gateway.certificate().is_none());
}
