export default () => ({ result: "OK", message: "Hello World" });
