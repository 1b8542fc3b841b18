package pack

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/reprieve-dev/reprieve/hack/release/internal/archive"
	"github.com/reprieve-dev/reprieve/hack/release/internal/binary"
	"github.com/reprieve-dev/reprieve/hack/release/internal/changelog"
	"github.com/reprieve-dev/reprieve/hack/release/internal/chart"
	"github.com/reprieve-dev/reprieve/hack/release/internal/compile"
	"github.com/reprieve-dev/reprieve/hack/release/internal/image"
	"github.com/reprieve-dev/reprieve/hack/release/internal/krew"
	"github.com/reprieve-dev/reprieve/hack/release/internal/licenses"
	"github.com/reprieve-dev/reprieve/hack/release/internal/product"
	"github.com/reprieve-dev/reprieve/hack/release/internal/sbom"
)

// These are the names of the files and directories that a release has once.
const (
	Checksums = "checksums.txt"
	Notes     = "release-notes.md"
	Images    = "images.txt"
	// ImageDir is a directory with a subdirectory for each image. The subdirectory is an OCI
	// layout.
	ImageDir = "images"
)

// These are the names of the licence files in archives.
const (
	license    = "LICENSE"
	thirdParty = "THIRD_PARTY_LICENSES"
)

// ErrForeign is the error if the directory for the release has files but is not an earlier release.
// Run does not overwrite these files.
var ErrForeign = errors.New("it has files, and is no release: not overwritten")

// Options has the input of Run and the directory for its output.
type Options struct {
	Release *product.Release
	// Products are the products to pack. Binaries is the directory with their programs.
	Products []product.Product
	Binaries string
	// Root is the directory of the repository.
	Root string
	// Out is the directory for the release. Run removes an earlier release in this directory.
	Out string
	// Progress receives a line of text for each packed file.
	Progress func(line string)
}

// packer has the state of one call of Run.
type packer struct {
	Options
	license []byte
	// sums maps the names of the packed files to their SHA-256 checksums.
	sums map[string]string
	// plugins has the archives that krew can install.
	plugins []krew.Archive
	// images has the names of the images, each with its digest.
	images []string
}

// Run packs all files of a release.
func Run(ctx context.Context, o Options) error {
	if err := o.Release.Check(); err != nil {
		return err
	}
	p := &packer{Options: o, sums: make(map[string]string)}
	var err error
	if p.license, err = os.ReadFile(filepath.Join(o.Root, license)); err != nil {
		return fmt.Errorf("read the licence: %w", err)
	}
	// Read the changelog first. If it has an error, the run fails before it packs the archives,
	// which takes long.
	changes, err := Changes(o.Root, o.Release)
	if err != nil {
		return err
	}
	if err := makeRoom(o.Out); err != nil {
		return err
	}
	for i := range o.Products {
		if err := p.product(ctx, &o.Products[i]); err != nil {
			return err
		}
	}
	if err := p.rest(changes); err != nil {
		return err
	}
	return p.checksums()
}

// makeRoom creates or empties the directory for a release. It returns ErrForeign if the directory
// has files but no release.
func makeRoom(dir string) error {
	entries, err := os.ReadDir(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return fmt.Errorf("look at the directory: %w", err)
	case len(entries) > 0 && !slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return e.Name() == Checksums }):
		return fmt.Errorf("%s: %w", dir, ErrForeign)
	}
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("remove the release that is there: %w", err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("make a directory: %w", err)
	}
	// A directory with this file counts as a release, which a later run may overwrite. Write the
	// file first, so that this is also true if the run is interrupted.
	return os.WriteFile(filepath.Join(dir, Checksums), nil, 0o644)
}

// product packs the archives and the image of one product.
func (p *packer) product(ctx context.Context, it *product.Product) error {
	var contents []image.Content
	for _, on := range it.Platforms {
		programs, err := p.programs(it, on)
		if err != nil {
			return err
		}
		book := licenses.NewBook()
		for i, program := range programs {
			if err := book.AddProgram(ctx, filepath.Join(p.Root, it.Binaries[i].Module), program); err != nil {
				return err
			}
		}
		if err := book.AddToolchain(ctx, p.Root); err != nil {
			return err
		}
		if err := p.archive(it, on, programs, book); err != nil {
			return err
		}
		if it.HasImage && on.OS == "linux" {
			contents = append(contents, image.Content{
				Platform: on, Program: programs[0].Content, License: p.license, ThirdParty: book.Text(),
			})
		}
	}
	if len(contents) == 0 {
		return nil
	}
	return p.image(it, contents)
}

// programs returns the programs of a product for a platform. It returns an error if a program has
// another platform or version.
func (p *packer) programs(it *product.Product, on product.Platform) ([]*binary.Program, error) {
	var out []*binary.Program
	for _, b := range it.Binaries {
		path := compile.Path(p.Binaries, b, on)
		content, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("read a program: %w", err)
		}
		program, err := binary.Read(content)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		version := ""
		if b.Versioned {
			version = p.Release.Version
		}
		if err := program.Check(on, version); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		out = append(out, program)
	}
	return out, nil
}

// archive packs the archive of a product for a platform.
func (p *packer) archive(it *product.Product, on product.Platform, programs []*binary.Program, book *licenses.Book) error {
	files := []archive.File{
		{Name: license, Mode: 0o644, Content: p.license},
		{Name: thirdParty, Mode: 0o644, Content: book.Text()},
	}
	for i, program := range programs {
		files = append(files, archive.File{Name: on.Binary(it.Binaries[i].Name), Mode: 0o755, Content: program.Content})
	}
	write := archive.TarGz
	if on.OS == "windows" {
		write = archive.Zip
	} else {
		for _, script := range it.Scripts {
			content, err := os.ReadFile(filepath.Join(p.Root, script))
			if err != nil {
				return fmt.Errorf("read a script: %w", err)
			}
			files = append(files, archive.File{Name: path.Base(script), Mode: 0o755, Content: content})
		}
	}
	name := it.ArchiveName(p.Release, on)
	var packed bytes.Buffer
	if err := write(&packed, p.Release.Date, files); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if err := p.write(name, packed.Bytes()); err != nil {
		return err
	}
	if it.Name == product.Plugin {
		p.plugins = append(p.plugins, krew.Archive{Name: name, SHA256: p.sums[name], Platform: on, License: license})
	}
	list, err := sbom.Write(p.Release, it.Name, programs, book.Names())
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return p.write(sbom.Name(name), list)
}

func (p *packer) image(it *product.Product, contents []image.Content) error {
	index, err := image.Build(p.Release, it, contents)
	if err != nil {
		return err
	}
	digest, err := image.Write(filepath.Join(p.Out, ImageDir, it.Name), p.Release, it, index)
	if err != nil {
		return err
	}
	named := p.Release.Image(it.Name) + "@" + digest
	p.images = append(p.images, named)
	p.Progress(path.Join(ImageDir, it.Name) + " " + digest)
	return nil
}

// rest writes the files that a release has once, such as the release notes.
func (p *packer) rest(changes changelog.Section) error {
	if len(p.plugins) > 0 {
		manifest, err := krew.Manifest(p.Release, p.plugins)
		if err != nil {
			return err
		}
		if err := p.write(krew.File, manifest); err != nil {
			return err
		}
	}
	var platforms []string
	for i := range p.Products {
		if it := &p.Products[i]; it.Name == product.Scheduler {
			platforms = it.PlatformNames()
		}
	}
	packed, err := Chart(p.Root, p.Release, changes.Entries, platforms)
	if err != nil {
		return err
	}
	if err := p.write(chart.FileName(p.Release), packed); err != nil {
		return err
	}
	if err := p.write(Images, []byte(strings.Join(append(slices.Clone(p.images), ""), "\n"))); err != nil {
		return err
	}
	return p.write(Notes, []byte(notes(p.Release, &changes, p.images)))
}

// Chart returns the packed Helm chart of a release.
func Chart(root string, r *product.Release, changes []changelog.Entry, platforms []string) ([]byte, error) {
	files, err := chart.Files(r, os.DirFS(filepath.Join(root, "charts", "reprieve")), changes, platforms)
	if err != nil {
		return nil, fmt.Errorf("pack the chart: %w", err)
	}
	var packed bytes.Buffer
	if err := archive.TarGz(&packed, r.Date, files); err != nil {
		return nil, fmt.Errorf("pack the chart: %w", err)
	}
	return packed.Bytes(), nil
}

// write writes a file of the release and records its checksum.
func (p *packer) write(name string, content []byte) error {
	if err := os.WriteFile(filepath.Join(p.Out, name), content, 0o644); err != nil {
		return fmt.Errorf("write a file of the release: %w", err)
	}
	sum := sha256.Sum256(content)
	p.sums[name] = hex.EncodeToString(sum[:])
	p.Progress(name)
	return nil
}

// checksums writes the file of checksums in the format of the sha256sum command.
func (p *packer) checksums() error {
	names := make([]string, 0, len(p.sums))
	for name := range p.sums {
		names = append(names, name)
	}
	slices.Sort(names)
	var out strings.Builder
	for _, name := range names {
		out.WriteString(p.sums[name] + "  " + name + "\n")
	}
	return p.write(Checksums, []byte(out.String()))
}
