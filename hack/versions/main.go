// Command versions runs a selection of the tests on several versions of Kubernetes, with the
// current scheduler. It writes the results into a page of the documentation.
//
//	go run ./hack/versions -bin-dir bin -doc docs/versions.md 1.34 1.37
//
// The directory of -bin-dir has the binaries of the newest control plane. Its subdirectories
// versions/<version> have the binaries of older control planes.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/util/version"
)

func main() {
	binDir := flag.String("bin-dir", "bin", "directory of the binaries")
	doc := flag.String("doc", "", "page to write the rows of the versions into; empty prints them")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Stdout, *binDir, *doc, flag.Args())
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "versions:", err)
		os.Exit(1)
	}
}

// run tests the versions one after the other. It prints the output of failed tests, and the page
// lists their names.
func run(ctx context.Context, out io.Writer, binDir, doc string, versions []string) error {
	if len(versions) == 0 {
		return errors.New("no versions are given")
	}
	binDir, err := filepath.Abs(binDir)
	if err != nil {
		return fmt.Errorf("find the binaries: %w", err)
	}
	var page []row
	var failed []string
	for _, v := range versions {
		parsed, err := version.ParseGeneric(v)
		if err != nil {
			return fmt.Errorf("read the version %q: %w", v, err)
		}
		dir, err := prepare(binDir, v)
		if err != nil {
			return err
		}
		built, err := builtVersion(ctx, dir)
		if err != nil {
			return err
		}
		if !strings.HasPrefix(built, "v"+v+".") {
			return fmt.Errorf("the kube-apiserver in %s is %s, not %s", dir, built, v)
		}
		r, began := row{version: v, built: built}, time.Now()
		for _, a := range core() {
			result, err := runArea(ctx, dir, parsed.Minor(), a)
			if err != nil {
				return fmt.Errorf("run the tests of %s on %s: %w", a.name, v, err)
			}
			fmt.Fprintf(out, "Kubernetes %s: %s: %s\n%s", built, a.name, result, result.output)
			if len(result.failed) > 0 {
				failed = append(failed, v+" "+a.name)
			}
			r.results = append(r.results, result)
		}
		fmt.Fprintf(out, "Kubernetes %s: %v\n", built, time.Since(began).Round(time.Second))
		page = append(page, r)
	}
	if err := write(out, doc, page); err != nil {
		return err
	}
	if len(failed) > 0 {
		return errors.New("tests failed: " + strings.Join(failed, ", "))
	}
	return nil
}
