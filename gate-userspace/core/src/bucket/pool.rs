//! The connections of each identity, by what is being done with them, and the clients who wait for them.

use std::ops::{Index, IndexMut};

use crate::line::Line;
use crate::refill::Refill;
use crate::reservoir::PoolId;
use crate::time::Moment;

/// How many ready connections a pool keeps.
#[derive(Clone, Copy, Debug, Default)]
pub struct Level {
    /// While it has clients.
    pub target: u32,
    /// After a while without clients, and at the start.
    pub min: u32,
    /// With so many, or `min` if that is lower, it is warm enough to begin.
    pub low_watermark: u32,
}

/// What is being done with a connection that is not ready.
#[derive(Clone, Copy)]
pub(super) enum Stage {
    Opening,
    Leased,
    Resetting,
}

/// How many connections are in each stage.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Stages([u32; 3]);

/// One identity.
pub(super) struct Pool {
    pub(super) level: Level,
    pub(super) stages: Stages,
    /// Clients who hold a ticket and wait for a connection.
    pub(super) line: Line,
    /// All clients who wait, for a place or for a connection, or have not picked up what they got.
    pub(super) waiters: u32,
    /// Whether it stands in the bucket's list of pools that need a connection.
    pub(super) is_wanted: bool,
    pub(super) last_used: Option<Moment>,
    /// The database's word on this identity's login.
    pub(super) login: Refill,
}

/// All identities of a bucket. Thousands may be known, so that sums are kept and not computed.
#[derive(Default)]
pub(super) struct Pools {
    pools: Vec<Pool>,
    /// Those that keep connections ready whether they have clients or not.
    kept: Vec<PoolId>,
    forgotten: Vec<PoolId>,
    sum: Stages,
}

impl Pools {
    /// Adds a pool; it takes the place of one that was forgotten, if there is such a place.
    pub(super) fn add(&mut self, level: Level) -> PoolId {
        let pool = Pool {
            level,
            stages: Stages::default(),
            line: Line::default(),
            waiters: 0,
            is_wanted: false,
            last_used: None,
            login: Refill::default(),
        };
        let id = match self.forgotten.pop() {
            Some(id) => {
                self[id] = pool;
                id
            }
            None => {
                self.pools.push(pool);
                PoolId(self.pools.len() - 1)
            }
        };
        if level.target > 0 || level.min > 0 {
            self.kept.push(id);
        }
        id
    }

    /// Forgets a pool that nobody has anything of.
    pub(super) fn forget(&mut self, id: PoolId) {
        self.kept.retain(|kept| *kept != id);
        self.forgotten.push(id);
    }

    pub(super) fn kept(&self) -> impl Iterator<Item = PoolId> {
        self.kept.iter().copied()
    }

    pub(super) fn ids(&self) -> impl Iterator<Item = PoolId> + use<> {
        (0..self.pools.len()).map(PoolId)
    }

    pub(super) fn sum(&self, stage: Stage) -> u32 {
        self.sum.get(stage)
    }

    pub(super) fn enter(&mut self, id: PoolId, stage: Stage) {
        self[id].stages.0[stage as usize] += 1;
        self.sum.0[stage as usize] += 1;
    }

    pub(super) fn exit(&mut self, id: PoolId, stage: Stage) {
        self[id].stages.0[stage as usize] -= 1;
        self.sum.0[stage as usize] -= 1;
    }
}

impl Stages {
    pub(super) fn get(&self, stage: Stage) -> u32 {
        self.0[stage as usize]
    }
}

impl Pool {
    /// Whether nobody holds or awaits anything of it, but for connections that are ready.
    pub(super) fn is_unused(&self) -> bool {
        self.waiters == 0 && self.stages == Stages::default() && !self.is_wanted
    }

    /// Connections that will be ready without anybody doing more for it.
    pub(super) fn coming(&self) -> u32 {
        self.stages.get(Stage::Opening) + self.stages.get(Stage::Resetting)
    }

    /// Clients for whom no connection is coming.
    pub(super) fn unserved(&self) -> u32 {
        self.line.len().saturating_sub(self.coming())
    }
}

impl Index<PoolId> for Pools {
    type Output = Pool;

    fn index(&self, id: PoolId) -> &Pool {
        &self.pools[id.0]
    }
}

impl IndexMut<PoolId> for Pools {
    fn index_mut(&mut self, id: PoolId) -> &mut Pool {
        &mut self.pools[id.0]
    }
}
