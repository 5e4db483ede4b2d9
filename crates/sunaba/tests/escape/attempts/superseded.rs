//! Writing after a later attempt has taken one's place. Without the guard: the same just before.

use crate::attempt::{Attempt, Without, sh};

const FENCE: &str = "the attempt is compared in every write";

pub(crate) const ATTEMPTS: &[Attempt] = &[
    sh(
        "push-when-superseded",
        FENCE,
        Without::Victim,
        r#"git -c http.extraHeader="Authorization: Bearer $TOKEN" clone -q "$GIT_URL" copy && cd copy
git -c user.name=x -c user.email=x@x.invalid commit -q --allow-empty -m "$SIDE"
git -c http.extraHeader="Authorization: Bearer $TOKEN" push origin "+HEAD:refs/heads/$VICTIM_BRANCH" && through"#,
    ),
    sh(
        "report-when-superseded",
        FENCE,
        Without::Victim,
        r#"api_through POST "/api/v1/sandboxes/$VICTIM_ID/events" -d '{"event_type":"escape.late"}'"#,
    ),
    sh(
        "report-in-a-batch-when-superseded",
        FENCE,
        Without::Victim,
        r#"api POST "/api/v1/sandboxes/$VICTIM_ID/events/batch" -d '{"events":[{"event_type":"escape.late"}]}'
[ "$status" = 200 ] && grep -q '"status":"received"' answer && through"#,
    ),
    sh(
        "call-a-model-when-superseded",
        FENCE,
        Without::Victim,
        r#"api_through POST /gateway/anthropic/v1/messages/count_tokens -H 'anthropic-version: 2023-06-01' -H "x-api-key: $TOKEN" -d '{"model":"script:default","messages":[{"role":"user","content":"x"}]}'"#,
    ),
    sh(
        "keep-a-blob-when-superseded",
        FENCE,
        Without::Victim,
        r#"api_through POST "/api/v1/sandboxes/$VICTIM_ID/blobs" --data-binary x"#,
    ),
];
