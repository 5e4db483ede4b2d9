//! The latest frames, bounded by number and by bytes.

use std::collections::VecDeque;
use std::sync::Arc;

use super::{Frame, Reading};

/// Holds every frame after `floor`, and none before.
#[derive(Debug)]
pub(super) struct Ring {
    frames: VecDeque<Arc<Frame>>,
    floor: i64,
    bytes: usize,
    most_frames: usize,
    most_bytes: usize,
}

impl Ring {
    pub(super) fn new(most_frames: usize, most_bytes: usize) -> Self {
        Self {
            frames: VecDeque::new(),
            floor: i64::MAX,
            bytes: 0,
            most_frames: most_frames.max(1),
            most_bytes,
        }
    }

    /// Says where the feed stood when the tailer began.
    pub(super) fn start_after(&mut self, position: i64) {
        self.floor = position;
    }

    /// Takes the next frame; the oldest ones go when there is no room.
    pub(super) fn push(&mut self, frame: Arc<Frame>) {
        self.bytes += frame.size_bytes();
        self.frames.push_back(frame);
        while self.frames.len() > self.most_frames || (self.bytes > self.most_bytes && self.frames.len() > 1)
        {
            let Some(gone) = self.frames.pop_front() else { break };
            self.bytes -= gone.size_bytes();
            self.floor = gone.position();
        }
    }

    /// Up to `most` frames after a position.
    pub(super) fn after(&self, position: i64, most: usize) -> Reading {
        if position < self.floor {
            return Reading::Past;
        }
        let first = self.frames.partition_point(|frame| frame.position() <= position);
        Reading::Frames(self.frames.range(first..).take(most).cloned().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(position: i64) -> Arc<Frame> {
        Arc::new(Frame::at(position))
    }

    fn positions(reading: Reading) -> Option<Vec<i64>> {
        match reading {
            Reading::Frames(frames) => Some(frames.iter().map(|frame| frame.position()).collect()),
            Reading::Past => None,
        }
    }

    proptest::proptest! {
        #[test]
        fn a_reader_sees_every_frame_once_or_is_told_that_it_is_past(
            gaps in proptest::collection::vec(1i64..4, 1..60),
            room in 1usize..20,
            from in 0i64..80,
        ) {
            let mut ring = Ring::new(room, usize::MAX);
            ring.start_after(0);
            let all: Vec<i64> = gaps.iter().scan(0, |at, gap| { *at += gap; Some(*at) }).collect();
            for position in &all {
                ring.push(frame(*position));
            }
            let wanted: Vec<i64> = all.iter().copied().filter(|position| *position > from).collect();
            match positions(ring.after(from, usize::MAX)) {
                Some(seen) => assert_eq!(seen, wanted),
                None => assert!(wanted.len() > room, "told to go to the store though the ring had it all"),
            }
        }
    }

    #[test]
    fn before_the_tailer_has_begun_the_ring_has_nothing_to_say() {
        assert_eq!(positions(Ring::new(5, 1000).after(0, 5)), None);
    }

    #[test]
    fn bytes_are_bounded_but_one_frame_always_fits() {
        let mut ring = Ring::new(100, 1);
        ring.start_after(0);
        ring.push(frame(1));
        ring.push(frame(2));
        assert_eq!(positions(ring.after(1, 9)), Some(vec![2]));
        assert_eq!(positions(ring.after(0, 9)), None);
    }
}
