//! Cuts the results of one turn to what the conversation can bear.

use crate::text::HeadAndTail;
use crate::tools::ToolReply;

/// Cuts the longest ones, all to the same length, until they have no more than `max_chars` together; short ones stay
/// whole. Beginning and end of each are kept.
pub(in crate::native) fn fit(replies: &mut [ToolReply], max_chars: usize) {
    let lengths: Vec<usize> = replies.iter().map(|reply| reply.content.chars().count()).collect();
    let most = longest_allowed(lengths.clone(), max_chars);
    for (reply, length) in replies.iter_mut().zip(lengths) {
        if length > most {
            let mut kept = HeadAndTail::new(most);
            kept.push(&reply.content);
            reply.content = kept.finish();
        }
    }
}

/// The length that nothing may exceed, so that all have `max` together.
fn longest_allowed(mut lengths: Vec<usize>, max: usize) -> usize {
    lengths.sort_unstable();
    let mut left = max;
    let count = lengths.len();
    for (index, length) in lengths.into_iter().enumerate() {
        let share = left / (count - index);
        if length > share {
            return share;
        }
        left -= length;
    }
    usize::MAX
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_long_ones_are_cut_and_all_of_them_fit() {
        assert_eq!(longest_allowed(vec![10, 20, 30], 60), usize::MAX);
        assert_eq!(longest_allowed(vec![10, 200, 300], 110), 50);
        assert_eq!(longest_allowed(vec![], 5), usize::MAX);
        let mut replies =
            [ToolReply::ok("short"), ToolReply::ok("x".repeat(500)), ToolReply::ok("y".repeat(900))];
        fit(&mut replies, 205);
        assert_eq!(replies[0].content, "short");
        for reply in &replies[1..] {
            let kept = reply.content.matches(['x', 'y']).count();
            assert!(kept == 100 && reply.content.contains("characters left out"), "{}", reply.content);
        }
    }
}
