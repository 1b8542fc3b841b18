package app

import (
	"context"
	"fmt"
	"strings"

	"github.com/reprieve-dev/reprieve/internal/manifest"
)

// withUsage is the help of --with.
const withUsage = "Manifests of objects to decide with as if the cluster had them: Queues, PriorityClasses, Nodes and the like; - for standard input, again for more."

// suppose adds the objects of manifests to the objects of a question. A given object replaces an
// object with the same name.
func (a *asking) suppose(ctx context.Context, asked *question, files []string) error {
	if len(files) == 0 {
		return nil
	}
	var documents []manifest.Document
	for _, name := range files {
		read, err := a.documents(name)
		if err != nil {
			return err
		}
		documents = append(documents, read...)
	}
	namespace, err := a.namespace()
	if err != nil {
		return err
	}
	submitted, err := manifest.Submit(ctx, asked.objects, asked.cfg, documents, manifest.Variation{Namespace: namespace, QueueLabel: queueLabel(asked.cfg)})
	if err != nil {
		return err
	}
	if len(submitted.Workloads) > 0 {
		w := &submitted.Workloads[0]
		return usage(fmt.Errorf("--with: %s/%s makes pods; ask plan about it", strings.ToLower(w.Kind), w.Name))
	}
	if len(submitted.Ignored) > 0 {
		return usage(fmt.Errorf("--with: no decision depends on %s", strings.Join(submitted.Ignored, ", ")))
	}
	return asked.use(submitted.Objects)
}
