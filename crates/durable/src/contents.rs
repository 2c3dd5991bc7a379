//! What is where: bytes of home space by way of the map.

use aquifer_base::HomeAddress;
use aquifer_base::limits::LOG_GRAIN_BYTES;
use aquifer_log::geometry::SegmentId;
use aquifer_map::partitions::{Hint, Portion, Source, portions};

use crate::block::Role;
use crate::core::Core;
use crate::draft::{Committed, Draft};
use crate::error::{Error, Result};
use crate::homes::{Homes, SizeClass};
use crate::log::Purpose;
use crate::session::Session;
use crate::transaction::Part;
use crate::view::Versions;
use crate::write_set::{Content, Piece};

const GRAIN: usize = LOG_GRAIN_BYTES;

/// The chunk of the block that a session has appended at `at`, and the grain of the log with which its payloads begin.
#[inline]
fn block_of(session: &Session, at: u64) -> (SegmentId, u64) {
    let payloads = at + session.block.payload_start() as u64;
    (session.chunk().expect("appended to it").id, payloads / GRAIN as u64)
}

impl Core {
    /// Whether all that a transaction writes is allocated. Their partitions are locked.
    #[inline]
    pub(crate) fn check_allocated(&self, draft: &mut Draft) -> Result<()> {
        for piece in draft.writes.pieces() {
            if !piece.is_fresh && matches!(piece.content, Content::Bytes(_)) {
                let hint = draft.hints.of(piece.start);
                portions(piece.start, piece.grains)
                    .try_for_each(|portion| self.check_portion(&portion, hint))?;
            }
        }
        Ok(())
    }

    #[inline]
    fn check_portion(&self, portion: &Portion, hint: &mut Hint) -> Result<()> {
        let mut grain = portion.start;
        while grain < portion.end {
            let run = self.map.find(portion.id, grain, hint);
            if run.source == Source::Hole {
                return Err(Error::NotAllocated(portion.id.start().plus_bytes((grain * GRAIN) as u64)));
            }
            grain = run.end;
        }
        Ok(())
    }

    /// What a transaction takes a chunk for. Others may change the map meanwhile: then it is a guess.
    pub(crate) fn purpose_of(&self, pieces: &[Piece]) -> Purpose {
        let (mut added, mut freed) = (0, 0);
        for piece in pieces {
            if piece.is_fresh {
                added += u64::from(piece.grains);
                continue;
            }
            for portion in portions(piece.start, piece.grains) {
                let (mut at, has_bytes) = (portion.start, matches!(piece.content, Content::Bytes(_)));
                while at < portion.end {
                    let run = self.map.find(portion.id, at, &mut Hint::default());
                    let grains = (run.end.min(portion.end) - at) as u64;
                    match (has_bytes, run.source) {
                        (true, Source::Zeros | Source::Hole) => added += grains,
                        (false, Source::Log(_)) => freed += grains,
                        _ => {}
                    }
                    at = run.end;
                }
            }
        }
        match added {
            _ if freed > added => Purpose::Free,
            0 => Purpose::Change,
            _ => Purpose::Write,
        }
    }

    /// Enters the block of `session` in the map, which was appended at `at`; returns how many bytes of objects it has.
    #[inline]
    pub(crate) fn enter_block(&self, session: &mut Session, at: u64) -> u64 {
        let (chunk, grain) = block_of(session, at);
        let Draft { writes, hints, .. } = &mut session.draft;
        self.enter_pieces(chunk, grain, writes.pieces(), |piece| *hints.of(piece.start))
    }

    /// As [`Core::enter_block`], with hints from elsewhere.
    pub(crate) fn enter_block_with(
        &self,
        session: &Session,
        at: u64,
        hint: impl FnMut(&Piece) -> Hint,
    ) -> u64 {
        let (chunk, grain) = block_of(session, at);
        self.enter_pieces(chunk, grain, session.draft.writes.pieces(), hint)
    }

    /// Appends the parts of a transaction, each at the beginning of a chunk, and enters them in the map when all are durable.
    pub(crate) fn append_parts(&self, session: &mut Session, parts: &[Part], version: u64) -> Result<()> {
        let (mut places, mut full) = (Vec::with_capacity(parts.len()), Vec::with_capacity(parts.len()));
        for (n, (pieces, id)) in parts.iter().enumerate() {
            let role = if n + 1 == parts.len() { Role::Last } else { Role::Part };
            full.extend(session.go_on_with(*id, &self.log, &self.clock, || version - 1)?);
            session.block.encode(&session.draft.writes, pieces, &[], role);
            let at = session.append(&self.log, version)?;
            places.push((at + session.block.payload_start() as u64) / GRAIN as u64);
        }
        for ((pieces, id), grain) in parts.iter().zip(places) {
            self.enter_pieces(*id, grain, pieces, |_| Hint::NONE);
        }
        full.iter().for_each(|chunk| self.log.seal(chunk));
        Ok(())
    }

    /// Points the map to pieces whose bytes are in a chunk from `grain` of the log on; returns how many bytes that are.
    #[inline]
    fn enter_pieces(
        &self,
        chunk: SegmentId,
        mut grain: u64,
        pieces: &[Piece],
        mut hint: impl FnMut(&Piece) -> Hint,
    ) -> u64 {
        let mut live = 0;
        for piece in pieces {
            let source = match piece.content {
                Content::Bytes(_) => Source::Log(grain),
                Content::Zeros => Source::Zeros,
                Content::Hole => Source::Hole,
            };
            if let Content::Bytes(_) = piece.content {
                grain += u64::from(piece.grains);
                live += piece.grains as usize * GRAIN;
            }
            self.enter(piece.start, piece.grains, source, hint(piece));
        }
        self.log.table.add_live(chunk, live as u32);
        live as u64
    }

    /// Points grains of home space to `source`. The caller has locked their partitions.
    #[inline]
    pub(crate) fn enter(&self, start: u64, grains: u32, source: Source, mut hint: Hint) {
        let mut released = |grain, grains: usize| {
            self.log.table.subtract_live(self.log.chunk_of(grain), (grains * GRAIN) as u32);
        };
        for portion in portions(start, grains) {
            let source = source.plus(portion.before as usize);
            self.map.replace(portion.id, (portion.start, portion.end), source, &mut hint, &mut released);
        }
    }
}

impl Committed for Core {
    #[inline]
    fn versions(&self) -> Versions<'_> {
        Versions { words: &self.map, clock: &self.clock, era: self.homes.era() }
    }

    #[inline]
    fn copy(&self, home: HomeAddress, out: &mut [u8], hint: &mut Hint) -> Result<usize> {
        let (id, start) = (home.partition(), home.offset_bytes());
        let (mut done, mut missing) = (0, 0);
        while done < out.len() {
            let at = start + done;
            let run = self.map.find(id, at / GRAIN, hint);
            let until = (run.end * GRAIN - start).min(out.len());
            let target = &mut out[done..until];
            match run.source {
                Source::Log(grain) => {
                    self.log.ensure_read(grain)?;
                    let offset = grain * GRAIN as u64 + (at % GRAIN) as u64;
                    self.log.persist.read(offset, target);
                }
                Source::Zeros => target.fill(0),
                Source::Hole => {
                    missing += target.len();
                    target.fill(0);
                }
            }
            done = until;
        }
        Ok(missing)
    }

    #[inline]
    fn is_allocated(&self, home: HomeAddress, hint: &mut Hint) -> bool {
        self.map.find(home.partition(), home.offset_bytes() / GRAIN, hint).source != Source::Hole
    }

    fn homes(&self) -> &Homes {
        &self.homes
    }

    fn give_area(&self, area: u32, class: SizeClass) -> Result<()> {
        Core::give_area(self, area, class)
    }

    fn give_slots_back(&self) {
        Core::give_slots_back(self);
    }

    fn capacity_bytes(&self) -> u64 {
        Core::capacity_bytes(self)
    }
}
