//! A table with stable addresses that frees memory along with its entries.
//!
//! A single slab is copied when it grows, which blocks a lane with many thousands of entries for
//! milliseconds, and it never shrinks.

use std::collections::BTreeSet;

use slab::Slab;

const BLOCK: usize = 256;

#[derive(Debug)]
pub(super) struct Table<T> {
    blocks: Vec<Slab<T>>,
    /// Allocated blocks that have room. The first of them is always filled first, so that other
    /// blocks can become empty and be freed.
    open: BTreeSet<usize>,
    len: usize,
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Table { blocks: Vec::new(), open: BTreeSet::new(), len: 0 }
    }
}

impl<T> Table<T> {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(super) fn end(&self) -> usize {
        self.blocks.len() * BLOCK
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.blocks.iter().flatten().map(|(_, entry)| entry)
    }

    pub(super) fn get_mut(&mut self, key: usize) -> Option<&mut T> {
        self.blocks.get_mut(key / BLOCK)?.get_mut(key % BLOCK)
    }

    pub(super) fn next_key(&mut self) -> usize {
        let block = self.open.first().copied().unwrap_or_else(|| self.add_block());
        block * BLOCK + self.blocks[block].vacant_key()
    }

    fn add_block(&mut self) -> usize {
        let freed = self.blocks.iter().position(|block| block.capacity() == 0);
        let at = freed.unwrap_or_else(|| {
            self.blocks.push(Slab::new());
            self.blocks.len() - 1
        });
        self.blocks[at] = Slab::with_capacity(BLOCK);
        self.open.insert(at);
        at
    }

    pub(super) fn insert(&mut self, entry: T) {
        let at = self.next_key() / BLOCK;
        self.blocks[at].insert(entry);
        if self.blocks[at].len() == BLOCK {
            self.open.remove(&at);
        }
        self.len += 1;
    }

    pub(super) fn remove(&mut self, key: usize) -> Option<T> {
        let at = key / BLOCK;
        let entry = self.blocks.get_mut(at)?.try_remove(key % BLOCK)?;
        self.len -= 1;
        self.open.insert(at);
        // One empty block is kept for the next entries.
        if self.blocks[at].is_empty() && self.open.len() > 1 {
            self.open.remove(&at);
            self.blocks[at] = Slab::new();
            while self.blocks.last().is_some_and(|block| block.capacity() == 0) {
                self.blocks.pop();
            }
        }
        Some(entry)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::base::random::Random;

    fn room<T>(table: &Table<T>) -> usize {
        table.blocks.iter().map(Slab::capacity).sum()
    }

    #[test]
    fn entries_are_found_by_their_keys_until_they_are_removed() {
        let (random, mut table, mut model) = (Random::seeded(1), Table::default(), BTreeMap::new());
        for round in 0..100_000_u64 {
            // The table grows and shrinks alternately.
            let grows = (round / 5000).is_multiple_of(2);
            if random.chance() < if grows { 0.8 } else { 0.2 } {
                let key = table.next_key();
                table.insert(round);
                assert_eq!(model.insert(key, round), None, "{key} is in use");
            } else {
                let key = (random.next() % (table.end() as u64 + 1)) as usize;
                assert_eq!(table.get_mut(key).copied(), model.get(&key).copied());
                assert_eq!(table.remove(key), model.remove(&key));
            }
            assert_eq!((table.len(), table.is_empty()), (model.len(), model.is_empty()));
        }
        assert!(model.keys().all(|&key| key < table.end()));
        let mut entries: Vec<_> = table.iter().copied().collect();
        entries.sort_unstable();
        let mut want: Vec<_> = model.into_values().collect();
        want.sort_unstable();
        assert_eq!(entries, want);
    }

    #[test]
    fn memory_goes_with_the_entries_but_for_one_block() {
        let mut table = Table::default();
        (0..100 * BLOCK).for_each(|entry| table.insert(entry));
        assert_eq!((room(&table), table.end()), (100 * BLOCK, 100 * BLOCK));
        for key in 0..100 * BLOCK {
            assert_eq!(table.remove(key), Some(key));
            let used = table.len().div_ceil(BLOCK) * BLOCK;
            assert!(room(&table) <= used + BLOCK, "{} for {}", room(&table), table.len());
        }
        assert_eq!(room(&table), BLOCK);
        (0..100 * BLOCK).for_each(|entry| table.insert(entry));
        assert_eq!((room(&table), table.end()), (100 * BLOCK, 100 * BLOCK));
        (BLOCK..100 * BLOCK).for_each(|key| assert!(table.remove(key).is_some()));
        assert_eq!(room(&table), 2 * BLOCK);
    }

    #[test]
    fn one_that_comes_and_goes_takes_no_new_block() {
        let mut table = Table::default();
        (0..BLOCK).for_each(|entry| table.insert(entry));
        for _ in 0..3 {
            let key = table.next_key();
            table.insert(0);
            assert_eq!((key, room(&table)), (BLOCK, 2 * BLOCK));
            table.remove(key);
            assert_eq!(room(&table), 2 * BLOCK);
        }
    }
}
