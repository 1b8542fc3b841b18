package product

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/mod/semver"
)

// Repository is the web address of the repository. Releases are published there.
const Repository = "https://github.com/reprieve-dev/reprieve"

// These are the names of the released commands.
const (
	Plugin     = "kubectl-reprieve"
	Scheduler  = "reprieve-scheduler"
	Playground = "playground"
)

// ToolsModule is the directory of the module with the dependencies on the control plane's programs,
// such as etcd.
const ToolsModule = "hack/tools"

// windows is the name of the operating system Windows. Its programs and archives have other file
// extensions.
const windows = "windows"

// Release identifies a release.
type Release struct {
	// Version is a semantic version with a leading v.
	Version string
	// Commit is the commit that the release is built from.
	Commit string
	// Date is the time of the commit. It is the modification time of all files in the release, so
	// that two builds of the commit produce the same bytes.
	Date time.Time
	// Registry is the container registry for the images, such as ghcr.io/reprieve-dev.
	Registry string
}

// Check returns an error if a field is missing, or if the version is not valid for a release.
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

// Number returns the version without the leading v, as charts and changelogs write it.
func (r *Release) Number() string { return strings.TrimPrefix(r.Version, "v") }

// Image returns the full name of an image: its registry, name and tag.
func (r *Release) Image(name string) string { return r.Registry + "/" + name + ":" + r.Version }

// Download returns the address to download a file of the release.
func (r *Release) Download(file string) string {
	return Repository + "/releases/download/" + r.Version + "/" + file
}

// Page returns the address of the web page for a file of the repository. The page shows the file at
// the version of the release.
func (r *Release) Page(path string) string { return Repository + "/blob/" + r.Version + "/" + path }

// Platform is an operating system and an architecture, in Go's names.
type Platform struct{ OS, Arch string }

// ParsePlatform parses a platform such as linux/amd64.
func ParsePlatform(s string) (Platform, error) {
	system, arch, ok := strings.Cut(s, "/")
	if !ok || system == "" || arch == "" || strings.Contains(arch, "/") {
		return Platform{}, fmt.Errorf("%q is no platform such as linux/amd64", s)
	}
	return Platform{OS: system, Arch: arch}, nil
}

// String returns the platform in the notation of container images, such as linux/amd64.
func (p Platform) String() string { return p.OS + "/" + p.Arch }

// Dir returns the platform in the notation of file names, such as linux_amd64.
func (p Platform) Dir() string { return p.OS + "_" + p.Arch }

// Binary returns the file name of a program on the platform.
func (p Platform) Binary(name string) string {
	if p.OS == windows {
		return name + ".exe"
	}
	return name
}

// Binary is a program of a release.
type Binary struct {
	// Name is the name of the program without an extension.
	Name string
	// Module is the directory of the program's Go module in the repository. Package is the
	// program's import path, or its directory in the module.
	Module, Package string
	// Ours is true for the programs of this repository. Versioned is true for the programs that
	// report the version of the release.
	Ours, Versioned bool
}

// Product is a part of a release that users install. It has an archive for each platform. It may
// also have a container image.
type Product struct {
	// Name is the name of the product's main program.
	Name string
	// Title describes the product in a few words.
	Title string
	// Archive is the start of the file names of the product's archives.
	Archive string
	// Binaries are the programs in each archive.
	Binaries []Binary
	// Platforms are the platforms that have an archive.
	Platforms []Platform
	// Scripts are files of the repository that each archive contains too, except the archives for
	// Windows.
	Scripts []string
	// HasImage is true if the product has an image for each of its Linux platforms. The image
	// contains the first element of Binaries.
	HasImage bool
	// Port is the network port that the program serves in the image; 0 for none.
	Port int
}

// Products returns the products of a release.
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
			// The archive contains a control plane, so that users can run the playground without a
			// download. There is no image. The playground gives all rights to its clients and
			// serves only 127.0.0.1, which other containers cannot reach.
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

// ArchiveName returns the file name of the product's archive for a platform.
func (p *Product) ArchiveName(r *Release, on Platform) string {
	extension := ".tar.gz"
	if on.OS == windows {
		extension = ".zip"
	}
	return p.Archive + "_" + r.Version + "_" + on.Dir() + extension
}

// PlatformNames returns the platforms of the product in the notation of container images.
func (p *Product) PlatformNames() []string {
	var out []string
	for _, on := range p.Platforms {
		out = append(out, on.String())
	}
	return out
}

// Select returns the products with the given names, and only for the given platforms. An empty list
// selects all. Select returns an error if a name is unknown, or if the result is empty.
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

// Complete reports whether the products contain every product of a release for all its platforms.
func Complete(some []Product) bool {
	all := Products()
	return slices.EqualFunc(all, some, func(a, b Product) bool { return a.Name == b.Name && slices.Equal(a.Platforms, b.Platforms) })
}
