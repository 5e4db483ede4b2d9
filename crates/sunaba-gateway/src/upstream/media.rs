//! Pictures and files among the messages.
//!
//! One that only points at its content would be fetched by the vendor, past the sandbox's egress rules; it is
//! refused, with the way to send it instead. The messages are gone through once, and nothing of them is kept.

use std::fmt;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::fields::Fields;
use super::google;
use super::part::{Field, Found, Inside, Is, Parts, Word};
use crate::prices::Price;

/// Their bytes, which are not text, and the tokens they count for.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Media {
    pub(super) size_bytes: u64,
    pub(super) tokens: u64,
}

/// Looks through the messages for pictures and files; refuses those that only point somewhere.
pub(super) fn find(fields: &Fields, price: &Price) -> Result<Media, String> {
    let mut media = google::media(fields, price)?;
    for name in ["messages", "input", "system"] {
        let found: Found =
            serde_json::from_str(fields.lazy(name).raw()).map_err(|error| format!("{name}: {error}"))?;
        if let Some(what) = found.inside.pointed_at {
            return Err(pointed_at(what));
        }
        media.size_bytes = media.size_bytes.saturating_add(found.inside.image_bytes);
        media.tokens = media.tokens.saturating_add(found.inside.count.saturating_mul(price.image_tokens));
    }
    Ok(media)
}

/// Why what only points at its content is refused.
pub(super) fn pointed_at(what: &str) -> String {
    format!(
        "the {what} is only pointed at, and the vendor would fetch it past this sandbox's egress rules; send its \
         bytes in base64 instead, and no link beside them"
    )
}

impl<'de> Deserialize<'de> for Field {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Name;
        impl Visitor<'_> for Name {
            type Value = Field;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a name")
            }
            fn visit_str<E>(self, name: &str) -> Result<Field, E> {
                Ok(match name {
                    "type" => Field::Type,
                    "data" => Field::Data,
                    "url" => Field::Url,
                    "file_data" => Field::FileData,
                    "file_url" => Field::FileUrl,
                    "file_id" => Field::FileId,
                    "image_url" => Field::ImageUrl,
                    "source" => Field::Source,
                    "file" => Field::File,
                    _ => Field::Other,
                })
            }
        }
        deserializer.deserialize_str(Name)
    }
}

impl<'de> Deserialize<'de> for Found {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Looking)
    }
}

struct Looking;

impl<'de> Visitor<'de> for Looking {
    type Value = Found;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_unit<E>(self) -> Result<Found, E> {
        Ok(Found::default())
    }

    fn visit_bool<E>(self, _: bool) -> Result<Found, E> {
        Ok(Found { is: Is::Other, ..Found::default() })
    }

    fn visit_i64<E>(self, _: i64) -> Result<Found, E> {
        Ok(Found { is: Is::Other, ..Found::default() })
    }

    fn visit_u64<E>(self, _: u64) -> Result<Found, E> {
        Ok(Found { is: Is::Other, ..Found::default() })
    }

    fn visit_f64<E>(self, _: f64) -> Result<Found, E> {
        Ok(Found { is: Is::Other, ..Found::default() })
    }

    fn visit_str<E>(self, text: &str) -> Result<Found, E> {
        // Base64 by itself has no colon; with one it is a link unless it brings its data along.
        let is_inline = text.starts_with("data:") || !text.contains(':');
        let size = u64::try_from(text.len()).unwrap_or(u64::MAX);
        let is = if is_inline { Is::Inline(size) } else { Is::Other };
        Ok(Found { is, word: Word::of(text), ..Found::default() })
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Found, A::Error> {
        let mut inside = Inside::default();
        while let Some(found) = list.next_element::<Found>()? {
            inside.add(found.inside);
            if inside.pointed_at.is_some() {
                while list.next_element::<IgnoredAny>()?.is_some() {}
            }
        }
        Ok(Found { is: Is::Other, inside, ..Found::default() })
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Found, A::Error> {
        let (mut parts, mut seen) = (Parts::default(), 0);
        while let Some(field) = map.next_key::<Field>()? {
            let found = map.next_value::<Found>()?;
            parts.take(field, found, &mut seen);
        }
        Ok(Found { is: Is::Other, own: parts.own, inside: parts.judged(), ..Found::default() })
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use serde_json::{Value, json};

    use super::*;
    use crate::dialect::{Anthropic, Responses};

    fn price() -> Price {
        crate::PriceTable::built_in().find("gpt-5").unwrap().clone()
    }

    fn found(part: &Value) -> Result<Media, String> {
        let body = Bytes::from(json!({"messages": [{"content": [part]}]}).to_string());
        let one = find(&Fields::parse(&Anthropic, &body).unwrap(), &price());
        let body = Bytes::from(json!({"input": [{"content": [part]}]}).to_string());
        assert_eq!(find(&Fields::parse(&Responses, &body).unwrap(), &price()), one);
        one
    }

    #[test]
    fn pictures_count_by_their_number() {
        let inline = [
            json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}),
            json!({"type": "input_image", "image_url": "data:image/png;base64,AAAA", "file_id": null}),
            json!({"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA", "detail": "low"}}),
            json!({"type": "tool_result", "content": [{"type": "image", "source": {"type": "base64", "data": "AAAA"}}]}),
        ];
        for part in inline {
            let media = found(&part).unwrap();
            assert_eq!(media.tokens, price().image_tokens, "{part}");
            assert!(media.size_bytes >= 4);
        }
        let file =
            json!({"type": "input_file", "filename": "x.pdf", "file_data": "data:application/pdf;base64,AA"});
        assert_eq!(found(&file).unwrap(), Media { size_bytes: 0, tokens: price().image_tokens });
    }

    #[test]
    fn what_only_points_at_its_content_is_refused_whatever_stands_beside_it() {
        let pointed = [
            json!({"type": "image", "source": {"type": "url", "url": "https://x/?secret"}}),
            json!({"type": "image", "source": {"data": "AAAA"}}),
            json!({"type": "image", "source": {"type": "url", "data": "AAAA", "url": "https://x"}}),
            json!({"type": "image", "source": {"type": "base64", "data": "AAAA", "url": "https://x"}}),
            json!({"source": {"type": "file", "file_id": "f"}, "type": "document"}),
            json!({"type": "document", "source": {"type": "base64", "data": "AA", "file_id": "f"}}),
            json!({"type": "document", "source": {"type": "text", "data": "x", "url": "https://x"}}),
            json!({"type": "document", "source": {"type": "content", "content": [{"type": "image", "source": {"type": "url", "url": "u"}}]}}),
            json!({"type": "input_image", "image_url": "https://x"}),
            json!({"type": "input_image", "file_id": "f"}),
            json!({"type": "input_image", "image_url": "data:image/png;base64,AA", "file_id": "f"}),
            json!({"type": "computer_call_output", "output": {"type": "computer_screenshot", "image_url": "https://x"}}),
            json!({"type": "image_url", "image_url": {"url": "HTTPS://x"}}),
            json!({"type": "input_file", "file_url": "https://x"}),
            json!({"type": "input_file", "file_data": "AA", "file_url": "https://x"}),
            json!({"type": "file", "file": {"file_id": "f"}}),
            json!({"type": "file", "file": {"file_data": "AA", "file_id": "f"}}),
            json!({"type": "container_upload", "file_id": "f"}),
        ];
        for part in pointed {
            let error = found(&part).unwrap_err();
            assert!(error.contains("base64"), "{part}: {error}");
        }
        let twice = r#"{"input": [{"type": "input_file", "file_data": "AA", "file_url": "https://x", "file_url": null}]}"#;
        let fields = Fields::parse(&Responses, &Bytes::from(twice)).unwrap();
        assert!(find(&fields, &price()).unwrap_err().contains("twice"));
    }

    #[test]
    fn words_are_let_be() {
        for part in [
            json!({"type": "document", "source": {"type": "text", "data": "x: y"}}),
            json!({"type": "tool_use", "input": {"type": "image", "source": {"type": "url", "url": "https://x"}}}),
            json!({"type": "text", "text": "https://x", "citations": [{"url": "https://x", "file_id": "f"}]}),
            json!({"role": "user", "data": "a", "url": "b"}),
        ] {
            assert_eq!(found(&part).unwrap(), Media::default(), "{part}");
        }
    }
}
