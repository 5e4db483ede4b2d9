//! A caller with one token, or none.

use std::sync::OnceLock;

use reqwest::{Method, StatusCode};
use serde_json::Value;

use crate::within;

/// What the server answered.
#[derive(Debug, Clone)]
pub struct Answer {
    /// The status.
    pub status: StatusCode,
    /// The headers.
    pub headers: reqwest::header::HeaderMap,
    /// The body as it came.
    pub text: String,
}

impl Answer {
    /// The body as JSON; `null` if it is none.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or(Value::Null)
    }

    /// The stable code of a problem.
    pub fn code(&self) -> String {
        self.json()["code"].as_str().unwrap_or_default().to_owned()
    }

    /// A header's value, or nothing.
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    /// The body as JSON, after checking the status.
    #[track_caller]
    pub fn expect(&self, status: u16) -> Value {
        assert_eq!(self.status.as_u16(), status, "{}", self.text);
        self.json()
    }

    /// Checks that it is a problem with this status and code.
    #[track_caller]
    pub fn expect_problem(&self, status: u16, code: &str) {
        assert_eq!((self.status.as_u16(), self.code().as_str()), (status, code), "{}", self.text);
        assert_eq!(self.header("content-type"), "application/problem+json");
        let body = self.json();
        assert_eq!(body["status"], status);
        for field in ["type", "title", "detail"] {
            assert!(body[field].is_string(), "no {field}: {body}");
        }
    }
}

/// A caller.
#[derive(Debug, Clone)]
pub struct Client {
    http: reqwest::Client,
    /// Where the server is.
    pub url: String,
    /// What the caller shows.
    pub token: Option<String>,
}

impl Client {
    /// A caller of the server at `url`.
    pub fn new(url: impl Into<String>, token: Option<String>) -> Self {
        static PROVIDER: OnceLock<()> = OnceLock::new();
        PROVIDER.get_or_init(|| {
            // Somebody else in this process may have installed it, which is as good.
            let _ = rustls::crypto::ring::default_provider().install_default();
        });
        let http = reqwest::Client::builder().no_proxy().build().expect("a client without special settings");
        Self { http, url: url.into(), token }
    }

    /// The same connection pool with another token.
    #[must_use]
    pub fn with_token(&self, token: Option<&str>) -> Self {
        Self { token: token.map(str::to_owned), ..self.clone() }
    }

    /// A request that may still be changed; send it with [`Client::send`].
    pub fn request(&self, method: Method, path: &str) -> reqwest::RequestBuilder {
        let request = self.http.request(method, format!("{}{path}", self.url));
        match &self.token {
            Some(token) => request.bearer_auth(token),
            None => request,
        }
    }

    /// Sends a request and takes the whole answer.
    pub async fn send(&self, request: reqwest::RequestBuilder) -> Answer {
        within("an answer", async {
            let response = request.send().await.expect("the server answers");
            let (status, headers) = (response.status(), response.headers().clone());
            let text = response.text().await.expect("the answer comes whole");
            Answer { status, headers, text }
        })
        .await
    }

    /// GET.
    pub async fn get(&self, path: &str) -> Answer {
        self.send(self.request(Method::GET, path)).await
    }

    /// POST with JSON.
    pub async fn post(&self, path: &str, body: Value) -> Answer {
        self.post_raw(path, body.to_string()).await
    }

    /// POST with a body that says it is JSON, whatever it is.
    pub async fn post_raw(&self, path: &str, body: impl Into<reqwest::Body>) -> Answer {
        let request = self.request(Method::POST, path).header("content-type", "application/json").body(body);
        self.send(request).await
    }

    /// PUT with any bytes.
    pub async fn put_raw(&self, path: &str, body: impl Into<reqwest::Body>) -> Answer {
        self.send(self.request(Method::PUT, path).body(body)).await
    }

    /// PUT with JSON.
    pub async fn put(&self, path: &str, body: Value) -> Answer {
        self.with_body(Method::PUT, path, body).await
    }

    /// PATCH with JSON.
    pub async fn patch(&self, path: &str, body: Value) -> Answer {
        self.with_body(Method::PATCH, path, body).await
    }

    async fn with_body(&self, method: Method, path: &str, body: Value) -> Answer {
        let request = self.request(method, path).header("content-type", "application/json");
        self.send(request.body(body.to_string())).await
    }

    /// DELETE.
    pub async fn delete(&self, path: &str) -> Answer {
        self.send(self.request(Method::DELETE, path)).await
    }
}
