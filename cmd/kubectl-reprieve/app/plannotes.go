package app

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/inventory"
	"github.com/reprieve-dev/reprieve/internal/manifest"
	"github.com/reprieve-dev/reprieve/internal/whatif"
)

// manifestsIn returns the names of the manifests in a directory and below it, sorted. If name is a
// file or "-", it returns name.
func manifestsIn(name string) ([]string, error) {
	if info, err := os.Stat(name); name == "-" || err != nil || !info.IsDir() {
		// If the file does not exist, the caller gets the error when it opens the file.
		return []string{name}, nil //nolint:nilerr // the caller opens the file, and reports the error with its name
	}
	var out []string
	err := filepath.WalkDir(name, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() && slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(path)) {
			out = append(out, path)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("look for manifests: %w", err)
	}
	if len(out) == 0 {
		return nil, usage(fmt.Errorf("%s has no file that ends in .yaml, .yml or .json", name))
	}
	return out, nil
}

// notesOn returns notes about the given objects: objects that the cluster already has, and likely
// mistakes.
func notesOn(asked *question, submitted *manifest.Submission, documents []manifest.Document) ([]string, error) {
	var out []string
	say := func(line string) {
		if !slices.Contains(out, line) {
			out = append(out, line)
		}
	}
	of, err := ownersOf(asked.objects)
	if err != nil {
		return nil, err
	}
	for i := range documents {
		if line := alreadyThere(asked, of, &documents[i]); line != "" {
			say(line)
		}
	}
	linter, err := whatif.NewLinter(submitted.Objects, queueLabel(asked.cfg))
	if err != nil {
		return nil, err
	}
	for i := range documents {
		d := &documents[i]
		name := strings.ToLower(d.Kind) + "/" + d.Meta.GetName()
		found := linter.Object(name, d.Meta)
		switch object := d.Object.(type) {
		case *corev1.Pod:
			found = nil
		case *v1alpha1.PodGroup:
			found = linter.PodGroup(name, object)
		default:
			if d.Kind == "PodGroup" {
				found = linter.NativePodGroup(name, d.Meta)
			}
		}
		for _, m := range found {
			say(m.Object + ": " + m.Message)
		}
	}
	for i := range submitted.Workloads {
		w := &submitted.Workloads[i]
		for _, pod := range w.Pods[:min(len(w.Pods), 1)] {
			for _, m := range linter.Pod(strings.ToLower(w.Kind)+"/"+w.Name, pod) {
				say(m.Object + ": " + m.Message)
			}
		}
	}
	return out, nil
}

// alreadyThere returns a note about a given object that creates pods, or a given pod, if the
// cluster already has it. Otherwise it returns "".
func alreadyThere(asked *question, of owners, d *manifest.Document) string {
	name := fmt.Sprintf("%s/%s", strings.ToLower(d.Kind), d.Meta.GetName())
	owner := strings.ToLower(d.Kind) + " " + d.Meta.GetNamespace() + "/" + d.Meta.GetName()
	pods := 0
	for _, o := range of {
		if o == owner {
			pods++
		}
	}
	there := pods > 0
	for _, kind := range workKinds() {
		if kind.Kind == d.Kind {
			_, found := asked.objects.Find(kind.stored(), d.Meta.GetNamespace(), d.Meta.GetName())
			there = there || found
		}
	}
	for _, kind := range inventory.Kinds() {
		if kind.Kind == d.Kind && slices.Contains([]string{"ReplicaSet", "StatefulSet", "ReplicationController"}, kind.Kind) {
			_, found := asked.objects.Find(inventory.NameOf(kind.GroupVersionResource), d.Meta.GetNamespace(), d.Meta.GetName())
			there = there || found
		}
	}
	switch {
	case !there:
		return ""
	case d.Kind == "Pod" || d.Kind == kindPodGroup || d.Kind == kindComposite:
		return name + " is in the cluster already: the plan uses the given object in its place"
	default:
		return fmt.Sprintf("%s is in the cluster already, with %s: the plan is for as many more", name, plural(pods, "pod"))
	}
}
