package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/reprieve-dev/reprieve/internal/playground"
)

// prepare completes the directory of a version, and returns its path. The directory of an older
// version already has its control plane. prepare adds links to the other binaries of binDir.
func prepare(binDir, version string) (string, error) {
	dir := filepath.Join(binDir, "versions", version)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("make the directory of %s: %w", version, err)
	}
	binaries, err := os.ReadDir(binDir)
	if err != nil {
		return "", fmt.Errorf("list the binaries: %w", err)
	}
	for _, b := range binaries {
		if b.IsDir() {
			continue
		}
		link := filepath.Join(dir, b.Name())
		if info, err := os.Lstat(link); err == nil && info.Mode().IsRegular() {
			continue // The version's own.
		}
		if err := os.Remove(link); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", fmt.Errorf("replace a link: %w", err)
		}
		if err := os.Symlink(filepath.Join("..", "..", b.Name()), link); err != nil {
			return "", fmt.Errorf("link a binary: %w", err)
		}
	}
	return dir, nil
}

// builtVersion returns the version of the API server and the controller manager in dir. It returns
// an error if their versions differ, because a controller manager must not be newer than its API
// server.
func builtVersion(ctx context.Context, dir string) (string, error) {
	var versions []string
	for _, name := range []string{playground.APIServer, playground.ControllerManager} {
		said, err := exec.CommandContext(ctx, filepath.Join(dir, name), "--version").Output()
		if err != nil {
			return "", fmt.Errorf("ask %s for its version: %w", name, err)
		}
		versions = append(versions, strings.TrimPrefix(strings.TrimSpace(string(said)), "Kubernetes "))
	}
	if versions[0] != versions[1] {
		return "", fmt.Errorf("in %s are a kube-apiserver %s and a kube-controller-manager %s", dir, versions[0], versions[1])
	}
	return versions[0], nil
}
