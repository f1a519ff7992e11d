//! A table of values by small keys that are never used twice in a row: an index with the number of times it was used.

/// Keys are `generation << 32 | index + 1`: never 0, and a stale one finds nothing.
pub struct Slab<T> {
    slots: Vec<Slot<T>>,
    free: Vec<u32>,
    len: usize,
}

struct Slot<T> {
    generation: u32,
    value: Option<T>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self { slots: Vec::new(), free: Vec::new(), len: 0 }
    }
}

impl<T> Slab<T> {
    /// Values held.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Puts in what `make` makes of its key.
    pub fn insert_with(&mut self, make: impl FnOnce(u64) -> T) -> &T {
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot { generation: 0, value: None });
            (self.slots.len() - 1) as u32
        });
        let slot = &mut self.slots[index as usize];
        let key = u64::from(slot.generation) << 32 | (u64::from(index) + 1);
        self.len += 1;
        slot.value.insert(make(key))
    }

    fn index(&self, key: u64) -> Option<usize> {
        let index = ((key & 0xffff_ffff) as usize).checked_sub(1)?;
        (u64::from(self.slots.get(index)?.generation) == key >> 32).then_some(index)
    }

    /// The value under `key`.
    pub fn get(&self, key: u64) -> Option<&T> {
        self.slots.get(self.index(key)?)?.value.as_ref()
    }

    /// Takes out the value under `key`.
    pub fn remove(&mut self, key: u64) -> Option<T> {
        let index = self.index(key)?;
        let slot = self.slots.get_mut(index)?;
        let value = slot.value.take()?;
        slot.generation = slot.generation.wrapping_add(1);
        self.free.push(index as u32);
        self.len -= 1;
        Some(value)
    }

    /// All values.
    pub fn values(&self) -> impl Iterator<Item = &T> {
        self.slots.iter().filter_map(|s| s.value.as_ref())
    }

    /// All values, to be changed.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.slots.iter_mut().filter_map(|s| s.value.as_mut())
    }

    /// Takes out the values that `which` names.
    pub fn remove_where(&mut self, which: impl Fn(&T) -> bool) -> Vec<T> {
        let keys: Vec<_> = (self.slots.iter().enumerate())
            .filter(|(_, s)| s.value.as_ref().is_some_and(&which))
            .map(|(index, s)| u64::from(s.generation) << 32 | (index as u64 + 1))
            .collect();
        keys.into_iter().filter_map(|key| self.remove(key)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stale_key_finds_nothing() {
        let mut slab = Slab::default();
        let first = *slab.insert_with(|key| key);
        assert_ne!(first, 0);
        assert_eq!(slab.get(first), Some(&first));
        assert_eq!(slab.remove(first), Some(first));
        assert_eq!(slab.remove(first), None);
        let second = *slab.insert_with(|key| key);
        assert_ne!(first, second);
        assert_eq!(slab.get(first), None);
        assert_eq!(slab.len(), 1);
        for key in [0, u64::MAX, 2, 1 << 32] {
            assert_eq!(slab.get(key), None);
        }
        assert_eq!(slab.remove_where(|_| true), [second]);
        assert_eq!(slab.len(), 0);
    }
}
