// Package deploy embeds the CustomResourceDefinitions and admission policies that every
// installation of Reprieve needs, wherever the scheduler itself runs.
package deploy

import "embed"

// API holds the manifests of the CustomResourceDefinitions and of the admission policies.
//
//go:embed crds/*.yaml admission-*.yaml
var API embed.FS
