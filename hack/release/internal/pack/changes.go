package pack

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/reprieve-dev/reprieve/hack/release/internal/changelog"
	"github.com/reprieve-dev/reprieve/hack/release/internal/product"
)

const (
	logFile     = "CHANGELOG.md"
	fragmentDir = "changelog"
)

// read returns the changelog and the fragments of the repository in root.
func read(root string) (*changelog.Log, []changelog.Entry, error) {
	raw, err := os.ReadFile(filepath.Join(root, logFile))
	if err != nil {
		return nil, nil, fmt.Errorf("read the changelog: %w", err)
	}
	log, err := changelog.Parse(string(raw))
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", logFile, err)
	}
	fragments, err := changelog.Fragments(os.DirFS(filepath.Join(root, fragmentDir)))
	return log, fragments, err
}

// Changes returns the changes of a release, from the changelog or from the fragments.
func Changes(root string, r *product.Release) (changelog.Section, error) {
	log, fragments, err := read(root)
	if err != nil {
		return changelog.Section{}, err
	}
	return log.Of(r.Number(), fragments), nil
}

// Gather moves the unreleased changes and the fragments to a new section of the changelog. It
// removes the files of the fragments and returns their names.
func Gather(root string, r *product.Release, day string) ([]string, error) {
	log, fragments, err := read(root)
	if err != nil {
		return nil, err
	}
	if err := log.Release(r.Number(), day, fragments); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(root, logFile), []byte(log.String()), 0o644); err != nil {
		return nil, fmt.Errorf("write the changelog: %w", err)
	}
	dir := filepath.Join(root, fragmentDir)
	names, err := changelog.FragmentNames(os.DirFS(dir))
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			return nil, fmt.Errorf("remove a fragment: %w", err)
		}
	}
	return names, nil
}

// notes returns the release notes: the changes, and the names of the images.
func notes(r *product.Release, changes *changelog.Section, images []string) string {
	var b strings.Builder
	b.WriteString(changelog.Absolute(changes.Body("##"), r.Page))
	if len(images) > 0 {
		b.WriteString("\n## Images\n\n")
		for _, image := range images {
			b.WriteString("- `" + image + "`\n")
		}
	}
	b.WriteString("\n## Checksums\n\n`" + Checksums + "` has the SHA-256 sums of all files: `sha256sum --check --ignore-missing " + Checksums + "`.\n" +
		"Each archive has a list of the modules in it beside it, in the format of CycloneDX.\n")
	return b.String()
}
