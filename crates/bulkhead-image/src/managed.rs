//! The images that we made, and which of them can go.

use std::{
    collections::{BTreeMap, HashMap},
    time::{Duration, SystemTime},
};

use bollard::{
    Docker,
    errors::Error as DaemonError,
    query_parameters::{
        ListContainersOptionsBuilder, ListImagesOptionsBuilder, RemoveImageOptionsBuilder,
    },
};

use crate::build::{CACHE, MANAGED};

/// An image of ours, in a daemon or unpacked for the native backend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Managed {
    /// Its id.
    pub id: String,
    /// Its names.
    pub tags: Vec<String>,
    /// How much it holds, with what it shares.
    pub size: u64,
    /// When it got its name here; its own date is the same for all.
    pub since: Option<SystemTime>,
    /// What it is for.
    pub purpose: Purpose,
    /// Whether a sandbox uses it.
    pub used: bool,
}

/// What an image is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Sandboxes run in it.
    Image,
    /// Builds start from it.
    Cache,
}

/// Which images go. Those in use never do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    /// Those that got their name longer ago.
    pub older_than: Option<Duration>,
    /// The oldest, until the rest hold no more.
    pub max_size: Option<u64>,
    /// All of them.
    pub all: bool,
}

/// All images of ours.
pub async fn list(docker: &Docker) -> Result<Vec<Managed>, DaemonError> {
    let filters = HashMap::from([("label", vec![MANAGED])]);
    let options = ListImagesOptionsBuilder::default().filters(&filters).build();
    let images = docker.list_images(Some(options)).await?;
    let options = ListContainersOptionsBuilder::default().all(true).build();
    let containers = docker.list_containers(Some(options)).await?;
    let used: Vec<String> = containers.into_iter().filter_map(|it| it.image_id).collect();
    let mut found = Vec::new();
    for image in images {
        let about = docker.inspect_image(&image.id).await?;
        let cache = image.labels.get(MANAGED).is_some_and(|it| it == CACHE);
        found.push(Managed {
            tags: image.repo_tags.into_iter().filter(|it| it != "<none>:<none>").collect(),
            size: u64::try_from(image.size).unwrap_or(0),
            since: about
                .metadata
                .and_then(|it| it.last_tag_time)
                .map(SystemTime::from)
                // A daemon that does not know says the year 1.
                .filter(|it| *it > SystemTime::UNIX_EPOCH),
            purpose: if cache { Purpose::Cache } else { Purpose::Image },
            used: used.contains(&image.id),
            id: image.id,
        });
    }
    found.sort_by(|a, b| (&a.tags, &a.id).cmp(&(&b.tags, &b.id)));
    Ok(found)
}

impl Policy {
    /// Which of `images` go at the time `now`, each with the reason.
    pub fn choose(self, images: &[Managed], now: SystemTime) -> BTreeMap<String, &'static str> {
        let mut chosen = BTreeMap::new();
        let free = || images.iter().filter(|it| !it.used);
        for image in free() {
            let age = image.since.and_then(|it| now.duration_since(it).ok());
            let old = self.older_than.zip(age).is_some_and(|(most, age)| most < age);
            if self.all {
                chosen.insert(image.id.clone(), "unused");
            } else if old {
                chosen.insert(image.id.clone(), "old");
            }
        }
        let Some(most) = self.max_size else { return chosen };
        let kept = |it: &&Managed| !chosen.contains_key(&it.id);
        let mut left: u64 = images.iter().filter(kept).map(|it| it.size).sum();
        let mut oldest: Vec<&Managed> = free().filter(kept).collect();
        // What nobody knows the age of goes first.
        oldest.sort_by_key(|it| (it.since, it.id.clone()));
        let mut more = Vec::new();
        for image in oldest {
            if left <= most {
                break;
            }
            left = left.saturating_sub(image.size);
            more.push(image.id.clone());
        }
        chosen.extend(more.into_iter().map(|it| (it, "above the size to keep")));
        chosen
    }
}

/// Removes one image, under all of its names. What others build on stays, and is no failure.
pub async fn remove(docker: &Docker, id: &str) -> Result<(), DaemonError> {
    let options = RemoveImageOptionsBuilder::default().force(true).build();
    match docker.remove_image(id, Some(options), None).await {
        Ok(_) | Err(DaemonError::DockerResponseServerError { status_code: 404 | 409, .. }) => {
            Ok(())
        }
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use super::{Managed, Policy, Purpose};

    const DAY: Duration = Duration::from_hours(24);

    fn image(name: &str, days: u32, size: u64) -> Managed {
        Managed {
            id: name.to_owned(),
            tags: Vec::new(),
            size,
            since: Some(SystemTime::UNIX_EPOCH + 100 * DAY - days * DAY),
            purpose: Purpose::Image,
            used: name.starts_with("used"),
        }
    }

    fn chosen(policy: Policy) -> Vec<String> {
        let images = [
            image("new", 1, 10),
            image("old", 40, 10),
            image("older", 50, 10),
            image("used-oldest", 90, 10),
        ];
        let now = SystemTime::UNIX_EPOCH + 100 * DAY;
        policy.choose(&images, now).into_keys().collect()
    }

    #[test]
    fn the_policy_chooses_by_age_size_and_use() {
        let by_age = Policy { older_than: Some(30 * DAY), ..Policy::default() };
        assert_eq!(chosen(by_age), ["old", "older"]);
        let by_size = Policy { max_size: Some(30), ..Policy::default() };
        assert_eq!(chosen(by_size), ["older"]);
        let both = Policy { max_size: Some(10), ..by_age };
        assert_eq!(chosen(both), ["new", "old", "older"]);
        let all = Policy { all: true, ..Policy::default() };
        assert_eq!(chosen(all), ["new", "old", "older"]);
        assert_eq!(chosen(Policy::default()), [""; 0]);
    }
}
