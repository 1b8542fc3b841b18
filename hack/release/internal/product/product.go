package product

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/mod/semver"
)

// Repository is the address of the repository, whose page lists the releases.
const Repository = "https://github.com/reprieve-dev/reprieve"

// These are the names of the released commands.
const (
	Plugin     = "kubectl-reprieve"
	Scheduler  = "reprieve-scheduler"
	Playground = "playground"
)

// ToolsModule is the directory of the module that has the parts of a control plane.
const ToolsModule = "hack/tools"

// windows is the system whose programs and archives have names of their own.
const windows = "windows"

// Release is one release.
type Release struct {
	// Version is a semantic version with a leading v.
	Version string
	// Commit is the commit that the release is built from.
	Commit string
	// Date is the time of the commit. All files of a release have this time, so a commit gives the
	// same bytes whenever it is built.
	Date time.Time
	// Registry is the registry of the images, such as ghcr.io/reprieve-dev.
	Registry string
}

// Check returns an error if no release can have the version.
func (r *Release) Check() error {
	switch {
	case !semver.IsValid(r.Version) || semver.Canonical(r.Version) != r.Version:
		// The tag of an image cannot contain build metadata.
		return fmt.Errorf("the version is %q, want one such as v0.2.0 or v0.2.0-rc.1", r.Version)
	case r.Commit == "":
		return fmt.Errorf("the commit of %s is not known", r.Version)
	case r.Date.IsZero():
		return fmt.Errorf("the time of the commit of %s is not known", r.Version)
	case r.Registry == "" || strings.HasSuffix(r.Registry, "/"):
		return fmt.Errorf("the registry is %q, want one such as ghcr.io/reprieve-dev", r.Registry)
	}
	return nil
}

// Prerelease reports whether the release is a prerelease.
func (r *Release) Prerelease() bool { return semver.Prerelease(r.Version) != "" }

// Number returns the version without the v, as charts and changelogs write it.
func (r *Release) Number() string { return strings.TrimPrefix(r.Version, "v") }

// Image returns the name of an image, with its tag.
func (r *Release) Image(name string) string { return r.Registry + "/" + name + ":" + r.Version }

// Download returns the address of a file of the release.
func (r *Release) Download(file string) string {
	return Repository + "/releases/download/" + r.Version + "/" + file
}

// Page returns the address of a file of the repository at the version of the release.
func (r *Release) Page(path string) string { return Repository + "/blob/" + r.Version + "/" + path }

// Platform is the operating system and architecture of a binary.
type Platform struct{ OS, Arch string }

// ParsePlatform reads a platform such as linux/amd64.
func ParsePlatform(s string) (Platform, error) {
	system, arch, ok := strings.Cut(s, "/")
	if !ok || system == "" || arch == "" || strings.Contains(arch, "/") {
		return Platform{}, fmt.Errorf("%q is no platform such as linux/amd64", s)
	}
	return Platform{OS: system, Arch: arch}, nil
}

// String returns the platform in the notation of container images.
func (p Platform) String() string { return p.OS + "/" + p.Arch }

// Dir returns the platform in the notation of file names.
func (p Platform) Dir() string { return p.OS + "_" + p.Arch }

// Binary returns the file name of a command on the platform.
func (p Platform) Binary(name string) string {
	if p.OS == windows {
		return name + ".exe"
	}
	return name
}

// Binary is one program.
type Binary struct {
	// Name is the name of the command.
	Name string
	// Module is the directory of its module, and Package its import path or directory there.
	Module, Package string
	// Ours is set for the commands of this repository, and Versioned for those commands that report
	// the version of the release.
	Ours, Versioned bool
}

// Product is a part of a release that users install: an archive for each platform, and an image if
// the command can run in a container.
type Product struct {
	// Name is the name of its command.
	Name string
	// Title describes the product in a few words.
	Title string
	// Archive is the first part of the names of its archives.
	Archive string
	// Binaries are the programs that are in an archive.
	Binaries []Binary
	// Platforms are the platforms with an archive.
	Platforms []Platform
	// Scripts are files of the repository that are packed beside the program, but not for Windows.
	Scripts []string
	// HasImage is true if there is an image for each Linux platform. The image has the first of the
	// binaries.
	HasImage bool
	// Port is the port of the program in the image; 0 for none.
	Port int
}

// Products returns all products of a release.
func Products() []Product {
	linux := []Platform{{"linux", "amd64"}, {"linux", "arm64"}}
	desktops := []Platform{{"darwin", "amd64"}, {"darwin", "arm64"}, {windows, "amd64"}, {windows, "arm64"}}
	scheduler, plugin := command(Scheduler), command(Plugin)
	scheduler.Versioned, plugin.Versioned = true, true
	return []Product{
		{
			Name: Scheduler, Title: "the scheduler", Archive: Scheduler, Binaries: []Binary{scheduler}, Platforms: linux,
			HasImage: true, Port: 10259,
		},
		{
			Name: Plugin, Title: "questions to the scheduler", Archive: Plugin, Binaries: []Binary{plugin}, Platforms: slices.Concat(linux, desktops),
			Scripts: []string{"cmd/kubectl-reprieve/kubectl_complete-reprieve"}, HasImage: true,
		},
		{
			// The archive contains the control plane, so that the playground runs where it is
			// unpacked. There is no image. The playground serves users with all rights on
			// 127.0.0.1, and only processes of the same container would reach it.
			Name: Playground, Title: "a cluster on one machine", Archive: "reprieve-playground", Platforms: linux,
			Binaries: []Binary{
				command(Playground), scheduler,
				part("etcd", "go.etcd.io/etcd/server/v3"),
				part("kube-apiserver", "k8s.io/kubernetes/cmd/kube-apiserver"),
				part("kube-controller-manager", "k8s.io/kubernetes/cmd/kube-controller-manager"),
				part("kwok", "sigs.k8s.io/kwok/cmd/kwok"),
			},
		},
	}
}

func command(name string) Binary {
	return Binary{Name: name, Module: ".", Package: "./cmd/" + name, Ours: true}
}

func part(name, path string) Binary { return Binary{Name: name, Module: ToolsModule, Package: path} }

// ArchiveName returns the file name of the archive for a platform.
func (p *Product) ArchiveName(r *Release, on Platform) string {
	extension := ".tar.gz"
	if on.OS == windows {
		extension = ".zip"
	}
	return p.Archive + "_" + r.Version + "_" + on.Dir() + extension
}

// PlatformNames returns the names of the platforms.
func (p *Product) PlatformNames() []string {
	var out []string
	for _, on := range p.Platforms {
		out = append(out, on.String())
	}
	return out
}

// Select returns the named products and platforms; an empty list selects all. An unknown name is an
// error.
func Select(all []Product, names []string, platforms []Platform) ([]Product, error) {
	for _, name := range names {
		if !slices.ContainsFunc(all, func(p Product) bool { return p.Name == name }) {
			return nil, fmt.Errorf("%q is not among the products and platforms of the release", name)
		}
	}
	var out []Product
	for _, p := range all {
		if len(names) > 0 && !slices.Contains(names, p.Name) {
			continue
		}
		if len(platforms) > 0 {
			p.Platforms = slices.DeleteFunc(slices.Clone(p.Platforms), func(on Platform) bool { return !slices.Contains(platforms, on) })
		}
		if len(p.Platforms) > 0 {
			out = append(out, p)
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("nothing is released for %v", platforms)
	}
	return out, nil
}

// Complete reports whether no product of a release is missing.
func Complete(some []Product) bool {
	all := Products()
	return slices.EqualFunc(all, some, func(a, b Product) bool { return a.Name == b.Name && slices.Equal(a.Platforms, b.Platforms) })
}
