package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/reprieve-dev/reprieve/hack/release/internal/binary"
	"github.com/reprieve-dev/reprieve/hack/release/internal/changelog"
	"github.com/reprieve-dev/reprieve/hack/release/internal/compile"
	"github.com/reprieve-dev/reprieve/hack/release/internal/image"
	"github.com/reprieve-dev/reprieve/hack/release/internal/licenses"
	"github.com/reprieve-dev/reprieve/hack/release/internal/pack"
	"github.com/reprieve-dev/reprieve/hack/release/internal/product"
)

// checked returns a release with a valid version. Its commit and date are placeholders: the
// subcommands that call checked use only the version.
func checked(s *settings) (*product.Release, error) {
	r := &product.Release{Version: s.version, Commit: "none", Date: time.Unix(1, 0), Registry: registry}
	if err := r.Check(); err != nil {
		return nil, err
	}
	return r, nil
}

// need returns an error if the value of a required flag is empty.
func need(flag, value string) error {
	if value == "" {
		return fmt.Errorf("-%s is missing", flag)
	}
	return nil
}

func build(ctx context.Context, out io.Writer, s *settings) error {
	products, err := s.products()
	if err != nil {
		return err
	}
	if _, err := checked(s); err != nil {
		return err
	}
	if err := errors.Join(need("binaries", s.binaries), need("ldflags", s.linker), need("part-ldflags", s.partLinker)); err != nil {
		return err
	}
	// If the linker flags lack the version, fail now. Otherwise the check of the programs fails
	// after an hour of builds.
	if !strings.Contains(s.linker, binary.Stamp(s.version)) {
		return fmt.Errorf("the linker's flags do not have %s", binary.Stamp(s.version))
	}
	return compile.Run(ctx, compile.Options{
		Root: s.root, Out: s.binaries, Products: products, Flags: s.linker, PartFlags: s.partLinker, Progress: out,
	})
}

func packAll(ctx context.Context, out io.Writer, s *settings) error {
	products, err := s.products()
	if err != nil {
		return err
	}
	if err := errors.Join(need("binaries", s.binaries), need("out", s.out)); err != nil {
		return err
	}
	r, err := s.release(ctx)
	if err != nil {
		return err
	}
	if err := pack.Run(ctx, pack.Options{
		Release: r, Products: products, Binaries: s.binaries, Root: s.root, Out: s.out,
		Progress: func(line string) { fmt.Fprintln(out, line) },
	}); err != nil {
		return err
	}
	fmt.Fprintf(out, "%s, from commit %s, is in %s. Nothing has been published.\n", r.Version, r.Commit, s.out)
	if strings.HasSuffix(r.Commit, dirty) {
		fmt.Fprintln(out, "Not to be published: the work tree has changes that are not committed.")
	}
	if !product.Complete(products) {
		fmt.Fprintln(out, "Not to be published: it is a part of a release.")
	}
	return nil
}

func packImage(ctx context.Context, out io.Writer, s *settings) error {
	if err := errors.Join(need("binary", s.binary), need("out", s.out)); err != nil {
		return err
	}
	some, err := product.Select(product.Products(), []string{s.only}, nil)
	if err != nil {
		return err
	}
	if !some[0].HasImage {
		return fmt.Errorf("%s has no image", s.only)
	}
	r, err := s.release(ctx)
	if err != nil {
		return err
	}
	content, err := os.ReadFile(s.binary)
	if err != nil {
		return fmt.Errorf("read the program: %w", err)
	}
	program, err := binary.Read(content)
	if err != nil {
		return fmt.Errorf("%s: %w", s.binary, err)
	}
	license, err := os.ReadFile(filepath.Join(s.root, "LICENSE"))
	if err != nil {
		return fmt.Errorf("read the licence: %w", err)
	}
	book := licenses.NewBook()
	if err := errors.Join(book.AddProgram(ctx, s.root, program), book.AddToolchain(ctx, s.root)); err != nil {
		return err
	}
	index, err := image.Build(r, &some[0], []image.Content{
		{Platform: program.Platform, Program: content, License: license, ThirdParty: book.Text()},
	})
	if err != nil {
		return err
	}
	digest, err := image.Write(s.out, r, &some[0], index)
	if err != nil {
		return err
	}
	fmt.Fprintln(out, r.Image(s.only)+"@"+digest)
	return nil
}

func packChart(ctx context.Context, _ io.Writer, s *settings) error {
	if err := need("out", s.out); err != nil {
		return err
	}
	r, err := s.release(ctx)
	if err != nil {
		return err
	}
	changes, err := pack.Changes(s.root, r)
	if err != nil {
		return err
	}
	some, err := product.Select(product.Products(), []string{product.Scheduler}, nil)
	if err != nil {
		return err
	}
	packed, err := pack.Chart(s.root, r, changes.Entries, some[0].PlatformNames())
	if err != nil {
		return err
	}
	return os.WriteFile(s.out, packed, 0o644)
}

func notes(_ context.Context, out io.Writer, s *settings) error {
	r, err := checked(s)
	if err != nil {
		return err
	}
	changes, err := pack.Changes(s.root, r)
	if err != nil {
		return err
	}
	fmt.Fprint(out, changelog.Absolute(changes.Body("##"), r.Page))
	return nil
}

func gather(_ context.Context, out io.Writer, s *settings) error {
	r, err := checked(s)
	if err != nil {
		return err
	}
	day := s.day
	if day == "" {
		day = time.Now().UTC().Format(time.DateOnly)
	}
	if _, err := time.Parse(time.DateOnly, day); err != nil {
		return fmt.Errorf("the day is %q, want one such as 2026-12-01", day)
	}
	gathered, err := pack.Gather(s.root, r, day)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "CHANGELOG.md has %s, with %d fragments: commit it, and tag the commit.\n", r.Version, len(gathered))
	return nil
}
