package binary_test

import (
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/reprieve-dev/reprieve/hack/release/internal/binary"
	"github.com/reprieve-dev/reprieve/hack/release/internal/binary/binarytest"
	"github.com/reprieve-dev/reprieve/hack/release/internal/product"
)

func TestRead(t *testing.T) {
	t.Parallel()
	here := product.Platform{OS: runtime.GOOS, Arch: runtime.GOARCH}
	got, err := binary.Read(binarytest.Build(t, here, "v0.2.0"))
	if err != nil {
		t.Fatal(err)
	}
	want := &binary.Program{
		Platform: here, Go: runtime.Version(), Package: "example.com/app",
		Main:    binary.Module{Path: "example.com/app", Source: "example.com/app", Version: "(devel)"},
		Modules: []binary.Module{{Path: "example.com/lib", Source: "./lib", Version: ""}},
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(binary.Program{}, "Content")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for name, tc := range map[string]struct {
		on            product.Platform
		version, want string
	}{
		"as it is":         {here, "v0.2.0", ""},
		"any version":      {here, "", ""},
		"another platform": {product.Platform{OS: "plan9", Arch: "386"}, "v0.2.0", "it is for " + here.String() + ", want plan9/386"},
		"another version":  {here, "v0.3.0", "it is not of version v0.3.0"},
	} {
		err := got.Check(tc.on, tc.version)
		if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.HasPrefix(err.Error(), tc.want)) {
			t.Errorf("%s: got %v, want %q", name, err, tc.want)
		}
	}
}

func TestNoProgram(t *testing.T) {
	t.Parallel()
	if _, err := binary.Read([]byte("#!/bin/sh\n")); err == nil {
		t.Error("a script passes for a program")
	}
}
