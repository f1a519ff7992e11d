//! The files and directories that loads need, made before they are measured and removed after: one file for each job, or a
//! directory of many. `command` and `contest` say for which loads.

use bench::plan::Plan;
use bench::workload::Workload;

use super::job::Load;
use super::place::{Address, Place};
use super::{tree, wire};

/// What so many jobs need.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ground {
    jobs: u32,
    /// Bytes of each job's own file, where there is a load on one.
    file_bytes: Option<u64>,
    /// Loads on many files, each of which needs another directory.
    directories: Vec<Workload>,
}

impl Ground {
    /// What one load needs.
    pub fn of_load(load: &Load) -> Self {
        Self::of_jobs(load.jobs, load.workload)
    }

    /// What so many jobs need that do the same.
    pub fn of_jobs(jobs: u32, workload: Workload) -> Self {
        Self::of(jobs, workload.size_bytes, std::iter::once(workload))
    }

    /// What all cells of a plan need.
    pub fn of_plan(plan: &Plan, size_bytes: u64) -> Self {
        let declared = plan.declared();
        let workloads = plan.cells().iter().map(|cell| Workload {
            operation: cell.operation,
            rwmixread: declared.rwmixread,
            block_bytes: cell.block_size_bytes,
            size_bytes,
            files: declared.files,
        });
        Self::of(declared.connections.iter().copied().max().unwrap_or(1), size_bytes, workloads)
    }

    fn of(jobs: u32, size_bytes: u64, workloads: impl Iterator<Item = Workload>) -> Self {
        let mut ground = Self { jobs, file_bytes: None, directories: Vec::new() };
        for workload in workloads {
            let is_there = |other: &Workload| key(other) == key(&workload);
            match workload.operation.is_on_names() {
                false => ground.file_bytes = Some(size_bytes),
                true if ground.directories.iter().any(is_there) => {}
                true => ground.directories.push(workload),
            }
        }
        ground
    }
}

/// What workloads have in common that share a directory.
fn key(workload: &Workload) -> Option<u32> {
    (!workload.operation.uses_files_up()).then_some(workload.block_bytes)
}

/// Makes it. Says what was agreed on with the server.
pub async fn prepare(place: &Place, ground: &Ground) -> Result<String, String> {
    let Ground { jobs, file_bytes, directories } = ground;
    match place.address() {
        Address::Server(_) => {
            for workload in directories {
                for job in 0..*jobs {
                    tree::prepare(place, workload, job).await?;
                }
            }
            wire::prepare(place, if file_bytes.is_some() { *jobs } else { 0 }, file_bytes.unwrap_or(0)).await
        }
        Address::Bare(bare) => bare.prepare(*jobs, file_bytes.unwrap_or(0)),
    }
}

/// Removes it.
pub async fn remove(place: &Place, ground: &Ground) -> Result<(), String> {
    let Ground { jobs, file_bytes, directories } = ground;
    match place.address() {
        Address::Server(_) => {
            for workload in directories {
                for job in 0..*jobs {
                    tree::remove(place, workload, job).await?;
                }
            }
            wire::remove(place, if file_bytes.is_some() { *jobs } else { 0 }).await
        }
        Address::Bare(bare) => {
            bare.remove(*jobs);
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use bench::plan::Operation;

    use super::*;

    #[test]
    fn what_can_share_a_directory_does() {
        let of = |operation, block_bytes| Workload { operation, rwmixread: 0, block_bytes, size_bytes: 9, files: 3 };
        let all = [
            of(Operation::FileRead, 4_096),
            of(Operation::FileStat, 4_096),
            of(Operation::FileCreate, 4_096),
            of(Operation::FileDelete, 512),
            of(Operation::FileList, 512),
        ];
        let ground = Ground::of(2, 9, all.into_iter());
        assert_eq!(ground.directories, [all[0], all[2], all[4]]);
        assert_eq!(ground.file_bytes, None);
        assert_eq!(Ground::of(2, 9, [of(Operation::Rw, 4_096)].into_iter()).file_bytes, Some(9));
    }
}
