package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/reprieve-dev/reprieve/hack/release/internal/product"
)

// registry is the default container registry of the images.
const registry = "ghcr.io/reprieve-dev"

// dateVariable is the environment variable with the date of a reproducible build, in seconds since
// 1970.
const dateVariable = "SOURCE_DATE_EPOCH"

// settings has the values of the command-line flags.
type settings struct {
	root, version, commit, date, registry string
	only, platforms                       string
	binaries, binary, out                 string
	linker, partLinker                    string
	day                                   string
}

// identity defines the flags that identify the release.
func (s *settings) identity(set *flag.FlagSet) {
	set.StringVar(&s.commit, "commit", "", "the commit; that of the work tree by default")
	set.StringVar(&s.date, "date", os.Getenv(dateVariable), "the time of the commit, in seconds since 1970; "+dateVariable+" or that of the commit by default")
	set.StringVar(&s.registry, "registry", registry, "where the images will be")
}

// selection defines the flags that select a part of the release.
func (s *settings) selection(set *flag.FlagSet) {
	set.StringVar(&s.only, "only", "", "the commands, separated by spaces; all by default")
	set.StringVar(&s.platforms, "platforms", "", "the platforms, such as linux/amd64, separated by spaces; all by default")
}

// products returns the products and platforms that the flags select.
func (s *settings) products() ([]product.Product, error) {
	var platforms []product.Platform
	for _, name := range strings.Fields(s.platforms) {
		on, err := product.ParsePlatform(name)
		if err != nil {
			return nil, err
		}
		platforms = append(platforms, on)
	}
	return product.Select(product.Products(), strings.Fields(s.only), platforms)
}

// release returns the release that the flags identify. If a flag has no value, the value comes from
// git.
func (s *settings) release(ctx context.Context) (*product.Release, error) {
	commit, date := s.commit, s.date
	var err error
	if commit == "" {
		if commit, err = s.git(ctx, "rev-parse", "HEAD"); err != nil {
			return nil, err
		}
		changed, err := s.git(ctx, "status", "--porcelain")
		if err != nil {
			return nil, err
		}
		if changed != "" {
			commit += dirty
		}
	}
	if date == "" {
		if date, err = s.git(ctx, "log", "-1", "--format=%ct"); err != nil {
			return nil, err
		}
	}
	seconds, err := strconv.ParseInt(date, 10, 64)
	if err != nil {
		return nil, fmt.Errorf("the time of the commit is %q, want seconds since 1970", date)
	}
	r := &product.Release{Version: s.version, Commit: commit, Date: time.Unix(seconds, 0).UTC(), Registry: s.registry}
	if err := r.Check(); err != nil {
		return nil, err
	}
	return r, nil
}

// dirty is the suffix of the commit of a work tree with changes.
const dirty = "-dirty"

func (s *settings) git(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir = s.root
	out, err := cmd.Output()
	if err != nil {
		var failed *exec.ExitError
		if errors.As(err, &failed) {
			err = fmt.Errorf("%w: %s", err, bytes.TrimSpace(failed.Stderr))
		}
		return "", fmt.Errorf("git %s: %w", args[0], err)
	}
	return strings.TrimSpace(string(out)), nil
}
