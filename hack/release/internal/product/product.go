package product

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/mod/semver"
)

// Repository is where releases are.
const Repository = "https://github.com/reprieve-dev/reprieve"

// The names of the commands that are released.
const (
	Plugin     = "kubectl-reprieve"
	Scheduler  = "reprieve-scheduler"
	Playground = "playground"
)

// ToolsModule is the directory of the module that has the parts of a control plane.
const ToolsModule = "hack/tools"

// windows needs names and archives of its own.
const windows = "windows"

// Release is one release.
type Release struct {
	// Version is a semantic version with a leading v.
	Version string
	// Commit is the commit that the release is built from.
	Commit string
	// Date is when that was committed. All files have it, so that a commit gives the same bytes
	// whenever it is built.
	Date time.Time
	// Registry is where the images are, such as ghcr.io/reprieve-dev.
	Registry string
}

// Check reports a version that no release can have.
func (r *Release) Check() error {
	switch {
	case !semver.IsValid(r.Version) || semver.Canonical(r.Version) != r.Version:
		// An image's tag has no place for build metadata.
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

// Prerelease reports whether it is for trying out.
func (r *Release) Prerelease() bool { return semver.Prerelease(r.Version) != "" }

// Number is the version without the v, as charts and changelogs have it.
func (r *Release) Number() string { return strings.TrimPrefix(r.Version, "v") }

// Image is the name of an image, with its tag.
func (r *Release) Image(name string) string { return r.Registry + "/" + name + ":" + r.Version }

// Download is the address of a file of the release.
func (r *Release) Download(file string) string {
	return Repository + "/releases/download/" + r.Version + "/" + file
}

// Page is the address of a file of the repository, as the release has it.
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

// String is the platform as container images have it.
func (p Platform) String() string { return p.OS + "/" + p.Arch }

// Dir is the platform as a part of names of files.
func (p Platform) Dir() string { return p.OS + "_" + p.Arch }

// Binary is the file name of a command on the platform.
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

// Product is something that users get: an archive for each platform, and an image if it makes
// sense.
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
	// HasImage says that there is an image, for each platform with Linux. It has the first of the
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

// ArchiveName is the file name of the archive for a platform.
func (p *Product) ArchiveName(r *Release, on Platform) string {
	extension := ".tar.gz"
	if on.OS == windows {
		extension = ".zip"
	}
	return p.Archive + "_" + r.Version + "_" + on.Dir() + extension
}

// PlatformNames are the platforms in words.
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

// Complete reports whether all is there that a release consists of.
func Complete(some []Product) bool {
	all := Products()
	return slices.EqualFunc(all, some, func(a, b Product) bool { return a.Name == b.Name && slices.Equal(a.Platforms, b.Platforms) })
}
