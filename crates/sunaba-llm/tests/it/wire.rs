//! The wire types: tolerant in, exact out.

use serde_json::{Value, json};
use sunaba_llm::{
    Accumulator, ApiKey, BlockDelta, Client, ClientConfig, ContentBlock, Error, Message, StreamEvent, Usage,
};

#[test]
fn blocks_come_back_as_they_were_in_their_order() {
    let message = json!({
        "role": "assistant",
        "content": [
            {"type": "redacted_thinking", "data": "abc"},
            {"type": "thinking", "thinking": "hm", "signature": "s"},
            {"type": "text", "text": "hello"},
            {"type": "tool_use", "id": "t", "name": "Bash", "input": {"command": "ls"}},
            {"type": "something_new", "deep": {"er": [1, 2]}},
        ],
    });
    let read: Message = serde_json::from_value(message.clone()).unwrap();
    assert!(matches!(read.content[0], ContentBlock::Other(_)));
    assert_eq!(serde_json::to_value(&read).unwrap(), message);
}

#[test]
fn unknown_events_deltas_and_fields_are_passed_over() {
    let event = |value: Value| serde_json::from_value::<StreamEvent>(value).unwrap();
    assert_eq!(event(json!({"type": "brand_new", "x": 1})), StreamEvent::Unknown);
    assert_eq!(event(json!({"type": "ping", "x": 1})), StreamEvent::Ping);
    let delta = json!({"type": "citations_delta", "citation": {}});
    let read = event(json!({"type": "content_block_delta", "index": 0, "delta": delta}));
    assert_eq!(read, StreamEvent::ContentBlockDelta { index: 0, delta: BlockDelta::Unknown });
}

#[test]
fn usage_in_a_stream_is_a_total() {
    let mut accumulator = Accumulator::default();
    let events = [
        json!({"type": "message_start", "message": {"usage": {"input_tokens": 9, "output_tokens": 1,
            "cache_read_input_tokens": 4, "cache_creation_input_tokens": 2}}}),
        json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 30}}),
        json!({"type": "message_stop"}),
    ];
    for event in events {
        accumulator.push(serde_json::from_value(event).unwrap()).unwrap();
    }
    let reply = accumulator.finish().unwrap();
    let usage = Usage { input_tokens: 9, output_tokens: 30, cache_read_tokens: 4, cache_write_tokens: 2 };
    assert_eq!(reply.usage, usage);
    assert_eq!(reply.stop_reason.as_deref(), Some("end_turn"));
}

#[test]
fn an_answer_without_its_end_is_none() {
    assert!(matches!(Accumulator::default().finish(), Err(Error::Truncated)));
}

#[test]
fn only_plain_http_is_taken_and_the_key_is_never_shown() {
    let client = |url: &str| Client::new(ClientConfig::new(url, ApiKey::new("very-secret")));
    for url in ["https://a.example", "not a url", "/path/only", "http://user@host/"] {
        assert!(matches!(client(url), Err(Error::BaseUrl { .. })), "{url}");
    }
    let client = client("http://127.0.0.1:3129/gateway/anthropic/").unwrap();
    assert!(!format!("{client:?}").contains("very-secret"));
    assert!(matches!(Client::new(ClientConfig::new("http://a", ApiKey::new("a\nb"))), Err(Error::ApiKey)));
}

#[tokio::test]
async fn nobody_there_is_an_error_that_may_pass() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let client = Client::new(ClientConfig::new(url, ApiKey::new("k"))).unwrap();
    let request = serde_json::from_value(json!({"model": "m", "max_tokens": 1, "messages": []})).unwrap();
    let error = client.stream(&request).await.unwrap_err();
    assert!(matches!(error, Error::Connect { .. }) && error.is_retryable(), "{error}");
}
