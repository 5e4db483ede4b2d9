//! HTTP, WebSocket, SSE, tokens and the OpenAPI document
