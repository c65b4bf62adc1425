//! GPUs of trees that look as kernels and drivers write them.

use super::*;

/// Writes `files` below a new directory; a text that begins with `->` makes a link.
fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = dir.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        match text.strip_prefix("->") {
            Some(to) => std::os::unix::fs::symlink(to, path).unwrap(),
            None => fs::write(path, text).unwrap(),
        }
    }
    dir
}

fn words(gpus: &[Gpu]) -> Vec<String> {
    let word = |gpu: &Gpu| {
        format!(
            "{} {} {} {} {} {}",
            gpu.vendor.as_str(),
            gpu.number,
            gpu.address,
            gpu.model.as_deref().unwrap_or("-"),
            gpu.numa.map_or("-".to_owned(), |node| node.to_string()),
            gpu.cpus,
        )
    };
    gpus.iter().map(word).collect()
}

const H100: &str = "Model: \t\t NVIDIA H100 80GB HBM3\nIRQ:   \t\t 10\nGPU UUID: \t GPU-9221d5d1-b60b-a624-bf14-0a1819cfda3b\n\
                    Video BIOS: \t 96.00.99.00.01\nBus Type: \t PCIe\nBus Location: \t 0000:62:00.0\nDevice Minor: \t 5\n\
                    GPU Excluded:\t No\n";

#[test]
fn nvidia_gpus_are_counted_by_address() {
    let dir = tree(&[
        (
            "proc/driver/nvidia/gpus/0000:c1:00.0/information",
            "Model: \t L4\nGPU UUID: \t GPU-aa\nGPU Excluded:\t No\n",
        ),
        ("proc/driver/nvidia/gpus/0000:62:00.0/information", H100),
        ("proc/driver/nvidia/gpus/0000:41:00.0/information", "Model: \t L4\nGPU Excluded:\t Yes\n"),
        ("proc/driver/nvidia/gpus/0001:01:00.0/information", ""),
        ("proc/driver/nvidia/gpus/odd/information", H100),
        ("sys/bus/pci/devices/0000:62:00.0/numa_node", "0\n"),
        ("sys/bus/pci/devices/0000:62:00.0/local_cpulist", "0-15,32-47\n"),
        ("sys/bus/pci/devices/0000:c1:00.0/numa_node", "-1\n"),
        ("sys/bus/pci/devices/0000:c1:00.0/local_cpulist", "\n"),
    ]);
    let gpus = find_below(dir.path());
    assert_eq!(
        words(&gpus),
        [
            "nvidia 0 0000:62:00.0 NVIDIA H100 80GB HBM3 0 0-15,32-47",
            "nvidia 1 0000:c1:00.0 L4 - ",
            "nvidia 2 0001:01:00.0 - - ",
        ]
    );
    assert_eq!(gpus[0].uuid.as_deref(), Some("GPU-9221d5d1-b60b-a624-bf14-0a1819cfda3b"));
}

#[test]
fn without_the_drivers_files_the_bus_is_looked_at() {
    let device = |address: &str, vendor: &str, class: &str, driver: &str| {
        let file = |name: &str| format!("sys/bus/pci/devices/{address}/{name}");
        [
            (file("vendor"), vendor.to_owned()),
            (file("class"), class.to_owned()),
            (file("driver"), driver.to_owned()),
        ]
    };
    let files = [
        device("0000:02:00.0", "0x10de\n", "0x030200\n", "->../../../bus/pci/drivers/nvidia"),
        device("0000:01:00.0", "0x10de\n", "0x030000\n", "->../../../bus/pci/drivers/nvidia"),
        device("0000:01:00.1", "0x10de\n", "0x040300\n", "->../../../bus/pci/drivers/snd_hda_intel"),
        device("0000:03:00.0", "0x10de\n", "0x030000\n", "->../../../bus/pci/drivers/nouveau"),
        device("0000:04:00.0", "0x8086\n", "0x030000\n", "->../../../bus/pci/drivers/i915"),
    ];
    let files: Vec<(&str, &str)> =
        files.iter().flatten().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    assert_eq!(
        words(&find_below(tree(&files).path())),
        ["nvidia 0 0000:01:00.0 - - ", "nvidia 1 0000:02:00.0 - - "]
    );
}

#[test]
fn amd_gpus_are_counted_by_node() {
    let node = |node: u32, text: &str| {
        (format!("sys/class/kfd/kfd/topology/nodes/{node}/properties"), text.to_owned())
    };
    let files = [
        node(0, "cpu_cores_count 64\nsimd_count 0\nlocation_id 0\ndomain 0\n"),
        // Bus 0x83, device 0, function 0.
        node(10, "cpu_cores_count 0\nsimd_count 440\nlocation_id 33536\ndomain 1\ndrm_render_minor 128\n"),
        node(2, "cpu_cores_count 0\nsimd_count 440\nlocation_id 768\n"),
        // The kernel hides a GPU that this process may not use.
        node(3, ""),
        ("sys/class/kfd/kfd/topology/nodes/2/name".to_owned(), "gfx90a\n".to_owned()),
        ("sys/bus/pci/devices/0000:03:00.0/numa_node".to_owned(), "3\n".to_owned()),
        ("sys/bus/pci/devices/0000:03:00.0/local_cpulist".to_owned(), "48-63\n".to_owned()),
    ];
    let files: Vec<(&str, &str)> = files.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    assert_eq!(
        words(&find_below(tree(&files).path())),
        ["amd 0 0000:03:00.0 gfx90a 3 48-63", "amd 1 0001:83:00.0 - - "]
    );
}

#[test]
fn a_device_that_several_tell_of_is_one_gpu() {
    let node = |node: u32, location: u64| {
        (
            format!("sys/class/kfd/kfd/topology/nodes/{node}/properties"),
            format!("simd_count 440\nlocation_id {location}\n"),
        )
    };
    // Two ways to write an address, a device that the other vendor's driver lists as well, a device listed twice, and a
    // device that its driver has divided in two.
    let files = [
        ("proc/driver/nvidia/gpus/0000:62:00.0/information".to_owned(), "Model: \t L4\n".to_owned()),
        ("proc/driver/nvidia/gpus/00000000:62:00.0/information".to_owned(), "Model: \t L4\n".to_owned()),
        node(1, 0x6200),
        node(2, 0x8300),
        node(3, 0x8300),
        node(4, 0x9300),
        node(5, 0x1000_9300),
        ("sys/bus/pci/devices/0000:93:00.0/numa_node".to_owned(), "1\n".to_owned()),
    ];
    let files: Vec<(&str, &str)> = files.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    let found = find_below(tree(&files).path());
    // Each has the number that its vendor's runtime counts, the others included.
    assert_eq!(
        words(&found),
        [
            "nvidia 0 0000:62:00.0 L4 - ",
            "amd 1 0000:83:00.0 - - ",
            "amd 3 0000:93:00.0 - 1 ",
            "amd 4 0000:93:00.0/1 - 1 ",
        ]
    );
    assert!(found.iter().all(|gpu| Address::parse(&gpu.address.to_string()) == Some(gpu.address)));
    assert_eq!(Address::parse("0000:93:00.0/16"), None);
}

#[test]
fn a_host_without_gpus_has_none() {
    assert!(find_below(tree(&[]).path()).is_empty());
    // On any host no number stands there twice.
    let gpus = find();
    let numbers: std::collections::BTreeSet<_> = gpus.iter().map(|gpu| (gpu.vendor, gpu.number)).collect();
    assert_eq!(numbers.len(), gpus.len());
}

#[test]
fn a_list_of_visible_ones_bounds_what_there_is() {
    let dir = tree(&[
        ("proc/driver/nvidia/gpus/0000:01:00.0/information", "GPU UUID: \t GPU-aaaa-1\n"),
        ("proc/driver/nvidia/gpus/0000:02:00.0/information", "GPU UUID: \t GPU-bbbb-2\n"),
        ("proc/driver/nvidia/gpus/0000:03:00.0/information", "GPU UUID: \t GPU-??\n"),
    ]);
    let check = |list: &str, want: &[u32]| {
        let seen = visible(find_below(dir.path()), Vendor::Nvidia, list);
        assert_eq!(seen.iter().map(|gpu| gpu.number).collect::<Vec<_>>(), want, "{list}");
    };
    check("0,2", &[0, 2]);
    check("2,0", &[0, 2]);
    check("0,7,1", &[0]);
    check("0,-1,1", &[0]);
    check("GPU-BBBB", &[1]);
    check("GPU-,0", &[]);
    check("", &[]);
    check("NoDevFiles", &[]);
    assert_eq!(visible(find_below(dir.path()), Vendor::Amd, "").len(), 3);
}
