// Command chart writes the generated parts of the Helm chart:
//
//   - charts/reprieve/files has copies of the objects in deploy/ that the templates include
//     unchanged.
//   - charts/reprieve/README.md has a table of values, from the comments in values.yaml.
//   - charts/reprieve/values.schema.json has the schema of the arguments of a profile.
//
// A chart cannot read files outside its folder, so it needs copies. `make verify` checks that the
// copies are up to date. test/chart checks that the rendered objects equal the objects of deploy/.
package main
